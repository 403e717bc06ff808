package console

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Section is a group of flags in --help.
type Section struct {
	Title string
	Flags *pflag.FlagSet
}

// NewSection returns a section without flags.
func NewSection(title string) Section {
	flags := pflag.NewFlagSet(title, pflag.ContinueOnError)
	flags.SortFlags = false
	return Section{Title: title, Flags: flags}
}

// UseSections adds the flags to cmd, whose help shows them by section.
func UseSections(cmd *cobra.Command, sections []Section) {
	cmd.Flags().SortFlags = false
	for _, s := range sections {
		s.Flags.VisitAll(func(f *pflag.Flag) { Annotate(f, SectionOf, s.Title) })
		cmd.Flags().AddFlagSet(s.Flags)
	}
}

// SectionOf is the annotation of a flag with the title of its section in --help.
const SectionOf = "lockstep-section"

// Annotate gives a flag one more annotation.
func Annotate(f *pflag.Flag, key, value string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[key] = []string{value}
}

// SectionTitle is the title of a flag's section; empty: it belongs to none.
func SectionTitle(f *pflag.Flag) string { return strings.Join(f.Annotations[SectionOf], "") }
