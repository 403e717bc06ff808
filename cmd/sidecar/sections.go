package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagSection is a group of flags in --help.
type flagSection struct {
	title string
	flags *pflag.FlagSet
}

func newSection(title string) flagSection {
	flags := pflag.NewFlagSet(title, pflag.ContinueOnError)
	flags.SortFlags = false
	return flagSection{title: title, flags: flags}
}

// useSections adds the flags to cmd, whose help shows them by section.
func useSections(cmd *cobra.Command, sections []flagSection) {
	cmd.Flags().SortFlags = false
	for _, s := range sections {
		s.flags.VisitAll(func(f *pflag.Flag) { annotate(f, sectionOf, s.title) })
		cmd.Flags().AddFlagSet(s.flags)
	}
}

// sectionOf is the annotation of a flag with the title of its section in --help.
const sectionOf = "lockstep-section"

// annotate gives a flag one more annotation.
func annotate(f *pflag.Flag, key, value string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[key] = []string{value}
}

// sectionTitle is the title of a flag's section; empty: it belongs to none.
func sectionTitle(f *pflag.Flag) string { return strings.Join(f.Annotations[sectionOf], "") }
