package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

// setHelp makes root, and the commands below it, print their help as one. All commands must be added before.
func (p program) setHelp(root *cobra.Command) {
	for path, text := range examples() {
		if cmd, _, err := root.Find(strings.Fields(path)[1:]); err == nil && cmd.CommandPath() == path {
			cmd.Example = text
		}
	}
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(cmd) })
	root.SetUsageFunc(func(cmd *cobra.Command) error { printUsage(cmd); return nil })
	root.SetHelpCommand(p.helpCommand())
}

func printHelp(cmd *cobra.Command) {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s\n\n", terminal.HelpScreen(w).Paragraphs(cmp.Or(cmd.Long, cmd.Short+".")))
	printUsage(cmd)
}

func printUsage(cmd *cobra.Command) {
	w := cmd.OutOrStdout()
	s := terminal.HelpScreen(w)
	uses := []string{cmd.UseLine()}
	switch {
	case !cmd.HasAvailableSubCommands():
	case strings.Contains(cmd.Use, " "): // it does something without one, like turn -- COMMAND
		uses = append(uses, cmd.CommandPath()+" "+strings.Join(console.Subcommands(cmd), "|"))
	default:
		uses = []string{cmd.CommandPath() + " COMMAND"}
	}
	fmt.Fprintln(w, "Usage:")
	for _, use := range uses {
		fmt.Fprintf(w, "%s%s\n", terminal.HelpIndent, strings.Join(s.Wrap(use, s.Width-len(terminal.HelpIndent)), "\n"+terminal.HelpIndent+terminal.HelpIndent))
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", s.Paragraphs(cmd.Example))
	}
	printCommands(w, cmd)
	printFlags(w, cmd)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n%s\n", s.Paragraphs("Type "+cmd.CommandPath()+" COMMAND --help for more about a command."))
	}
}

// commandGroups are the groups of the commands of root, in their order.
var commandGroups = []struct {
	title string
	names []string
}{
	{"Run a node", []string{"run", "wait-ready", "kubeadm"}},
	{"See what is going on", []string{"status", "history", "explain", "replay", "support", "plan"}},
	{"Change a fleet", []string{"node", "cordon", "uncordon", "turn", "rollback", "override", "cluster", "store"}},
	{"Prepare a release", []string{"bundle", "service"}},
	{"Others", nil},
}

func printCommands(w io.Writer, cmd *cobra.Command) {
	available := slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool {
		return !c.IsAvailableCommand() && c.Name() != "help"
	})
	if len(available) == 0 {
		return
	}
	fmt.Fprint(w, "\nAvailable Commands:\n")
	if cmd.HasParent() {
		listCommands(w, terminal.HelpIndent, available)
		return
	}
	for _, g := range commandGroups {
		own := slices.DeleteFunc(slices.Clone(available), func(c *cobra.Command) bool { return groupOf(c) != g.title })
		slices.SortStableFunc(own, func(a, b *cobra.Command) int {
			return slices.Index(g.names, a.Name()) - slices.Index(g.names, b.Name())
		})
		fmt.Fprintf(w, "\n%s%s:\n", terminal.HelpIndent, g.title)
		listCommands(w, terminal.HelpIndent+terminal.HelpIndent, own)
	}
	fmt.Fprint(w, "\nTopics:\n")
	var rows [][]string
	for _, t := range topics() {
		rows = append(rows, []string{terminal.HelpIndent + "help " + t.name, t.short})
	}
	terminal.NewColumns(terminal.HelpScreen(w), rows).Print(w)
}

func groupOf(cmd *cobra.Command) string {
	for _, g := range commandGroups {
		if slices.Contains(g.names, cmd.Name()) {
			return g.title
		}
	}
	return commandGroups[len(commandGroups)-1].title
}

func listCommands(w io.Writer, before string, all []*cobra.Command) {
	var rows [][]string
	for _, c := range all {
		rows = append(rows, []string{before + c.Name(), c.Short})
	}
	terminal.NewColumns(terminal.HelpScreen(w), rows).Print(w)
}

// printFlags prints the flags of a command by section. The flags of etcd are long, and the same for all commands:
// a topic lists them.
func printFlags(w io.Writer, cmd *cobra.Command) {
	s := terminal.HelpScreen(w)
	var titles []string
	sections := map[string]*pflag.FlagSet{}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		title := console.SectionTitle(f)
		if sections[title] == nil {
			sections[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			sections[title].SortFlags = false
			titles = append(titles, title)
		}
		sections[title].AddFlag(withVariableName(cmd, f))
	})
	slices.SortStableFunc(titles, func(a, b string) int { return sectionOrder(a) - sectionOrder(b) })
	for _, title := range titles {
		if title == reach.EtcdTopic {
			fmt.Fprintf(w, "\n%s\n", s.Paragraphs("The flags that say where etcd is (--etcd-servers, --data-dir and others): see sidecar help etcd."))
			continue
		}
		heading := "Flags"
		if title != "" {
			heading = title + " flags"
		} else if len(titles) > 1 && cmd.Name() == "run" {
			heading = "Global flags"
		}
		fmt.Fprintf(w, "\n%s:\n\n", heading)
		s.PrintFlags(w, sections[title])
	}
	if cmd.Name() == "run" {
		fmt.Fprintf(w, "\n%s\n", s.Paragraphs(`Each flag can be set by an environment variable: LOCKSTEP_ETCD_SERVERS sets
--etcd-servers. The flag takes precedence. A variable LOCKSTEP_... that belongs
to no flag is an error.`))
	}
}

// sectionOrder keeps the order of titles, except those that come last.
func sectionOrder(title string) int {
	switch title {
	case reach.EtcdTopic:
		return 2
	case "":
		return 1
	}
	return 0
}

// withVariableName adds the environment variable to the text of a flag. The flags of run
// are too many for that.
func withVariableName(cmd *cobra.Command, f *pflag.Flag) *pflag.Flag {
	shown := *f
	if cmd.Name() != "run" && !console.Momentary(f.Name) {
		shown.Usage += " Or $" + console.EnvName(f.Name) + "."
	}
	if f.Name == "help" {
		shown.Usage = "Print this."
	}
	return &shown
}

// helpCommand is `sidecar help`. It rejects a command or topic that does not exist.
func (p program) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Print the help of a command, or a topic",
		Long:  "Print the help of a command, like sidecar help node list, or a topic.",
		Args:  cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return helpWords(commandAt(cmd.Root(), args)), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				for _, t := range topics() {
					if t.name == args[0] {
						t.print(p.Stdout)
						return nil
					}
				}
			}
			about := commandAt(cmd.Root(), args)
			if depth := strings.Count(about.CommandPath(), " "); depth < len(args) {
				return console.UnknownWord("command or topic", args[depth], helpWords(about), "see sidecar help")
			}
			return about.Help()
		},
	}
}

// commandAt returns the command that words lead to, as far as they do.
func commandAt(root *cobra.Command, words []string) *cobra.Command {
	for _, name := range words {
		next := terminal.ChildOf(root, name)
		if next == nil {
			break
		}
		root = next
	}
	return root
}

// helpWords are what may follow the name of cmd after `sidecar help`.
func helpWords(cmd *cobra.Command) []string {
	if cmd.HasParent() {
		return console.Subcommands(cmd)
	}
	return append(console.Subcommands(cmd), topicNames()...)
}

func topicNames() (out []string) {
	for _, t := range topics() {
		out = append(out, t.name)
	}
	return out
}
