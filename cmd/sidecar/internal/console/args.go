package console

import (
	"errors"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

// NoArgs rejects arguments that are not flags.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("unexpected argument %q; see %s --help", args[0], cmd.CommandPath())
	}
	return nil
}

// OneArg requires exactly one argument.
func OneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Usagef("expected one %s; see %s --help", name, cmd.CommandPath())
		}
		return nil
	}
}

// ParentOf completes a command that consists of others.
func ParentOf(cmd *cobra.Command, of ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return UnknownCommand(cmd, args[0])
	}
	cmd.AddCommand(of...)
	return cmd
}

// UnknownCommand is the error about a command that does not exist below cmd. others may follow its name too.
func UnknownCommand(cmd *cobra.Command, name string, others ...string) error {
	return UnknownWord("command", name, append(Subcommands(cmd), others...), "see "+cmd.CommandPath()+" --help")
}

// MaxTypos is how many letters of a word may be wrong for a proposal.
const MaxTypos = 2

// UnknownWord is the error about a word that is not among the known ones.
func UnknownWord(what, word string, known []string, otherwise string) error {
	hint := otherwise
	var near []string
	for _, k := range known {
		if edits(word, k) <= MaxTypos || word != "" && strings.HasPrefix(k, word) {
			near = append(near, k)
		}
	}
	if len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return Usagef("unknown %s %q; %s", what, word, hint)
}

// Nearest returns the word that differs least from wanted, and the number of letters to
// insert, delete or replace; none if there is no word.
func Nearest(wanted string, words []string) (near string, distance int) {
	for _, word := range words {
		if d := edits(wanted, word); near == "" || d < distance {
			near, distance = word, d
		}
	}
	return near, distance
}

// edits counts the letters to insert, delete or replace to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1) // of the letters of a so far, to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// NearestFlag returns the flag that the unknown one in an error may be meant for; empty: there is none.
func NearestFlag(flags *pflag.FlagSet, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedShortnames()) > 0 {
		return ""
	}
	var known []string
	flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	near, distance := Nearest(unknown.GetSpecifiedName(), known)
	if near == "" || distance > MaxTypos {
		return ""
	}
	return "--" + near
}

// WhoTypes names the user of this command and the machine, for the people who later read who changed something.
// Through sudo, the user is the one who typed it.
func (p Program) WhoTypes() string {
	name, _ := p.LookupEnv("SUDO_USER")
	if u, err := user.Current(); err == nil && name == "" {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil && name != "" {
		name += "@" + host
	}
	return terminal.Clean(name)
}

// Subcommands are the names of those that people see.
func Subcommands(cmd *cobra.Command) []string {
	var out []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			out = append(out, c.Name())
		}
	}
	return out
}
