package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/report"
)

// everyCommand calls visit with each command that people see.
func everyCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	if cmd.Hidden {
		return
	}
	visit(cmd)
	for _, c := range cmd.Commands() {
		everyCommand(c, visit)
	}
}

func TestHelp(t *testing.T) {
	everyCommand(program{}.root(), func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		code, out, _ := call(t, program{}, append(strings.Fields(path)[1:], "--help")...)
		if code != console.ExitOK || !strings.Contains(out, "Usage:\n") {
			t.Errorf("%s --help: got %d and\n%s", path, code, out)
		}
		if !strings.Contains(out, "\nExamples:\n") && path != "sidecar help" {
			t.Errorf("%s --help has no example: add one in examples.txt", path)
		}
		if strings.Contains(out, "`") {
			t.Errorf("%s --help has a backtick:\n%s", path, out)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > terminal.DefaultWidth {
				t.Errorf("%s --help: a line of %d columns: %s", path, n, line)
			}
		}
	})
	for _, about := range topics() {
		code, out, _ := call(t, program{}, "help", about.name)
		if code != console.ExitOK || len(out) < 300 {
			t.Errorf("help %s: got %d and\n%s", about.name, code, out)
		}
		for line := range strings.Lines(out) {
			if len(line) > terminal.DefaultWidth+1 {
				t.Errorf("help %s: a line of %d columns: %s", about.name, len(line), line)
			}
		}
	}
}

// A command that does something by itself shows that before its subcommands.
func TestHelp_usage(t *testing.T) {
	for name, want := range map[string]string{
		"turn": "Usage:\n  sidecar turn [flags] -- COMMAND [ARG...]\n  sidecar turn begin|end|set|status\n\n",
		"node": "Usage:\n  sidecar node COMMAND\n\n",
	} {
		if _, out, _ := call(t, program{}, name, "--help"); !strings.Contains(out, want) {
			t.Errorf("%s --help: got\n%s\nwant\n%s", name, out, want)
		}
	}
}

// The exit codes that commands have of their own are in the topic about all.
func TestHelp_exitCodes(t *testing.T) {
	_, out, _ := call(t, program{}, "help", "exit-codes")
	for _, code := range []int{console.ExitOK, console.ExitFailed, console.ExitUsage, console.ExitNotReady, console.ExitNoTurn, console.ExitNoService} {
		if !strings.Contains(out, fmt.Sprintf("\n  %d  ", code)) {
			t.Errorf("help exit-codes has no %d:\n%s", code, out)
		}
	}
}

// The variables are named where the flags are, and one topic names the variables of etcd.
func TestHelp_names(t *testing.T) {
	space := regexp.MustCompile(`\s+`)
	for args, want := range map[string]string{
		"status --help":        "Or $LOCKSTEP_SERVER.",
		"help etcd":            "--etcd-cafile file",
		"help environment":     "LOCKSTEP_DATA_DIR",
		"node list --help":     "see sidecar help etcd",
		"cordon --help":        "sidecar cordon cp-2 --for=30m",
		"help cluster token":   "create",
		"run --help":           "Embedded etcd flags:",
		"help":                 "See what is going on: status Show the gate",
		"cluster token --help": "revoke",
	} {
		_, out, _ := call(t, program{}, strings.Fields(args)...)
		if !strings.Contains(space.ReplaceAllString(out, " "), want) {
			t.Errorf("%s does not have %q:\n%s", args, want, out)
		}
	}
	if _, out, _ := call(t, program{}, "node", "list", "--help"); strings.Contains(out, "--etcd-cafile") {
		t.Errorf("the help has the flags of etcd:\n%s", out)
	}
}

// An unknown word is wrong usage at each level, and the nearest word is named.
func TestUnknownWords(t *testing.T) {
	for args, want := range map[string]string{
		"statsu":                   `unknown command "statsu"; did you mean status?`,
		"hlep":                     `unknown command "hlep"; did you mean help?`,
		"node lst":                 `unknown command "lst"; did you mean list?`,
		"node xyzzy":               `unknown command "xyzzy"; see sidecar node --help`,
		"cluster token creat":      `unknown command "creat"; did you mean create?`,
		"bundle vaildate":          `unknown command "vaildate"; did you mean validate?`,
		"override bgin":            `unknown command "bgin"; did you mean begin?`,
		"help foo":                 `unknown command or topic "foo"; see sidecar help`,
		"help etdc":                `unknown command or topic "etdc"; did you mean etcd?`,
		"help node lst":            `unknown command or topic "lst"; did you mean list?`,
		"help node list x":         `unknown command or topic "x"; see sidecar help`,
		"status --sever x":         `unknown flag: --sever; did you mean --server?`,
		"node list --etcd-cafil=x": `unknown flag: --etcd-cafil; did you mean --etcd-cafile?`,
		"status --nonsense":        `unknown flag: --nonsense; see sidecar status --help`,
		"status -x":                `unknown shorthand flag: 'x' in -x; see sidecar status --help`,
	} {
		code, out, errs := call(t, program{}, strings.Fields(args)...)
		if code != console.ExitUsage || out != "" || errs != "sidecar: "+want+"\n" {
			t.Errorf("%s: got %d, %q and %q, want %q", args, code, out, errs, want)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	_, want, _ := call(t, program{}, "version")
	for _, flag := range []string{"--version", "-v"} {
		if code, out, errs := call(t, program{}, flag); code != console.ExitOK || out != want || errs != "" {
			t.Errorf("%s: got %d, %q and %q", flag, code, out, errs)
		}
	}
}

// parses returns the error in the words behind "sidecar".
func parses(args []string) error {
	root := program{}.root()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() && !slices.Contains(args, "--") { // sidecar turn -- COMMAND
		return fmt.Errorf("%s is no command of its own", cmd.CommandPath())
	}
	return errors.Join(cmd.ParseFlags(rest), cmd.ValidateArgs(cmd.Flags().Args()))
}

// Each example is a command that exists, with flags that it accepts.
func TestExamplesParse(t *testing.T) {
	root, found := program{}.root(), 0
	texts := map[string]string{"sidecar help etcd": topics()[0].long}
	everyCommand(root, func(cmd *cobra.Command) { texts[cmd.CommandPath()] = cmd.Example })
	for path, text := range texts {
		for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
			words, isCommand := strings.CutPrefix(line, "  sidecar ")
			if !isCommand {
				continue
			}
			found++
			if strings.Contains(words, " -- ") { // the rest is another command
				if err := parses(strings.Fields(words)); err != nil {
					t.Errorf("%s: %s: %v", path, strings.TrimSpace(line), err)
				}
				continue
			}
			r := terminal.ReadCommand(root, terminal.Screen{}.Words(strings.TrimSpace(words)))
			if rest := r.Peek(); rest != "" {
				t.Errorf("%s: %q does not belong to %s", path, rest, line)
			}
			if err := parses(r.Args); err != nil {
				t.Errorf("%s: %s: %v", path, strings.TrimSpace(line), err)
			}
		}
	}
	if found < 40 {
		t.Errorf("got %d examples", found)
	}
	for path := range examples() {
		if got := commandAt(root, strings.Fields(path)[1:]).CommandPath(); got != path {
			t.Errorf("examples of %q: there is only %s", path, got)
		}
	}
}

// TestCompletion: fitting words are proposed, also words that only the sidecar knows.
func TestCompletion(t *testing.T) {
	f := newFakeSidecar()
	t.Cleanup(f.Close)
	known := awaits()
	known.Status.Status.Bundle, known.Fleet.Records[0].Node.Bundle, known.Fleet.Records[1].Node.Bundle = "acme", "acme", "base"
	known.Cluster.Members = []report.Member{{Node: "cp-1"}}
	f.snapshot.Set(known)
	for args, want := range map[string]string{
		"cordon|":                      "cp-1 cp-2 cp-3 :4",
		"uncordon|":                    "cp-1 cp-2 cp-3 :4",
		"node|remove|":                 "cp-1 cp-2 cp-3 :4",
		"cluster|remove|":              "cp-1 cp-2 cp-3 :4",
		"cordon|cp-1|":                 ":4",
		"turn|end|":                    "cp-1 cp-2 cp-3 :4",
		"history|--node|":              "cp-1 cp-2 cp-3 :4",
		"explain|--node|":              "cp-1 cp-2 cp-3 :4",
		"cluster|token|create|--node|": "cp-2 cp-3 :4",
		"bundle|replace|--from|":       "acme :4",
		"bundle|replace|--to|":         "base :4",
		"bundle|validate|x|--from|":    ":16",
		"node|set-roles|cp-1|--add|":   "kubernetes_controller kubernetes_worker consensus_member :4",
		"node|set-roles|cp-1|":         "kubernetes_controller kubernetes_worker consensus_member none :4",
		"bundle|validate|":             ":16",
		"service|validate|":            ":16",
		"plan|--bundle|":               ":16",
		"node|list|--data-dir|":        ":16",
		"node|list|--etcd-cafile|":     ":0",
		"node|list|--etcd-prefix|":     ":4",
		"cluster|restore|":             ":0",
		"run|--etcd|":                  "external embedded :4",
		"status|-o|":                   "table wide json yaml :4",
		"help|cluster|":                "defrag members remove restore rotate-ca snapshot token :4",
		"completion|":                  "bash zsh fish powershell :4",
	} {
		var out bytes.Buffer
		p := program{Program: console.Program{Stdout: &out, Stderr: &bytes.Buffer{}, LookupEnv: func(name string) (string, bool) { return f.URL, name == "LOCKSTEP_SERVER" }}}
		p.main(t.Context(), append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(args, "|")...))
		if got := strings.Join(strings.Fields(out.String()), " "); got != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
	code, out, _ := call(t, program{}, cobra.ShellCompRequestCmd, "node", "list", "--etcd")
	if code != console.ExitOK || strings.Contains(out, "`") || !strings.Contains(out, "--etcd-cafile\tPEM file with") {
		t.Errorf("got %d and %q", code, out)
	}
}

// TestGroups: a new command gets a place in the help of sidecar. The last group lists the commands
// of every program.
func TestGroups(t *testing.T) {
	var got []string
	for _, cmd := range (program{}).root().Commands() {
		if !cmd.Hidden && groupOf(cmd) == commandGroups[len(commandGroups)-1].title {
			got = append(got, cmd.Name())
		}
	}
	slices.Sort(got)
	if want := []string{"completion", "version"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: name the others in commandGroups", got, want)
	}
}
