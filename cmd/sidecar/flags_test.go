package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/runflags"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

// flagsDoc is the page that lists the flags.
var flagsDoc = filepath.Join("..", "..", "docs", "flags.md")

func TestFlagsAreDocumented(t *testing.T) {
	want := documentFlags()
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(flagsDoc), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(flagsDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(flagsDoc)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/flags.md is not what the program has; go test ./cmd/sidecar -rewrite writes it")
	}
}

const flagsHead = "# Flags\n\n<!-- Written by `go test ./cmd/sidecar -rewrite` from the program. Do not edit. -->\n\n" +
	"Each flag has an environment variable: `LOCKSTEP_DATA_DIR` sets `--data-dir`. Those that are about one call have none: %s. " +
	"The flag wins; an empty variable counts as none. " +
	"The default is in brackets. `-o` is `--output`, with its formats. A link alone is for the flags that it leads to.\n\n" +
	"A wrong value ends the program with exit code 2 and a line that names the flag, or the variable. " +
	"`sidecar run` does the same for a variable `LOCKSTEP_...` that belongs to no flag of any command, and names a similar one. " +
	"Another command refuses a name that is similar to one of its own, and warns of one that is similar to another's. " +
	"What a kubelet sets for a Service called `lockstep` (`LOCKSTEP_SERVICE_HOST`, `LOCKSTEP_SERVICE_PORT...`, `LOCKSTEP_PORT...`), " +
	"or `lockstep-` and more, is exempt.\n\n" +
	"`LOCKSTEP_TERMINATION_GRACE_PERIOD` has no flag: it is the grace period of the pod in which the sidecar runs (`60` or `60s`), " +
	"and the sidecar warns if `--shutdown-delay` does not fit into it.\n\n## sidecar run\n"

// documentFlags writes the page from the commands themselves.
func documentFlags() string {
	var b strings.Builder
	root := program{}.root()
	fmt.Fprintf(&b, flagsHead, strings.Join(momentaryFlags(root), ", "))
	opts := runflags.Default()
	for _, s := range runflags.Sections(&opts) {
		fmt.Fprintf(&b, "\n### %s\n\n", s.Title)
		documentSection(&b, s.Flags)
	}
	for _, g := range sharedFlags() {
		fmt.Fprintf(&b, "\n## Flags of %s\n\n%s\n\n", g.name, g.text)
		g.flags.VisitAll(func(f *pflag.Flag) { documentFlag(&b, f) })
	}
	documentCommands(&b, root)
	return b.String()
}

// documentSection documents flags of run: those that commands share, only by name.
func documentSection(b *strings.Builder, flags *pflag.FlagSet) {
	shared, names := sharedFlags()[0], []string{}
	flags.VisitAll(func(f *pflag.Flag) {
		if other := shared.flags.Lookup(f.Name); other != nil && other.Usage == f.Usage && other.DefValue == f.DefValue {
			names = append(names, "`--"+f.Name+"`")
			return
		}
		documentFlag(b, f)
	})
	if len(names) > 0 {
		fmt.Fprintf(b, "- %s: see [%s](#%s)\n", strings.Join(names, ", "), shared.name, shared.anchor)
	}
}

// momentaryFlags lists the flags of all commands that no variable sets.
func momentaryFlags(root *cobra.Command) (out []string) {
	for _, cmd := range root.Commands() {
		out = append(out, momentaryFlags(cmd)...)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if console.Momentary(f.Name) {
				out = append(out, "`--"+f.Name+"`")
			}
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// group is a set of flags that several commands share. The page lists it once.
type group struct {
	name, anchor, text string
	flags              *pflag.FlagSet
}

func sharedFlags() []group {
	server := pflag.NewFlagSet("server", pflag.ContinueOnError)
	new(reach.Server).Bind(server)
	return []group{
		{"etcd", "flags-of-etcd", "How a command reaches etcd (`sidecar help etcd`).", reach.EtcdSection().Flags},
		{"the server", "flags-of-the-server", "Which sidecar a command asks.", server},
	}
}

// has reports whether all flags of the group are flags of a command, with the same texts and defaults.
func (g group) has(flags *pflag.FlagSet) bool {
	all := true
	g.flags.VisitAll(func(f *pflag.Flag) {
		other := flags.Lookup(f.Name)
		all = all && other != nil && other.Usage == f.Usage && other.DefValue == f.DefValue
	})
	return all
}

// documentCommands documents the flags of the commands below cmd: neighbors with the same flags together.
func documentCommands(b *strings.Builder, cmd *cobra.Command) {
	var names, last string
	flush := func() {
		if names != "" {
			fmt.Fprintf(b, "\n## %s\n\n%s", names, last)
		}
	}
	for _, cmd := range commandsWithFlags(cmd) {
		var flags strings.Builder
		documentCommand(&flags, cmd.LocalFlags())
		if flags.String() == last {
			names += ", " + cmd.CommandPath()
			continue
		}
		flush()
		names, last = cmd.CommandPath(), flags.String()
	}
	flush()
}

// commandsWithFlags lists the commands below cmd that have flags, each behind the ones below it.
func commandsWithFlags(cmd *cobra.Command) (out []*cobra.Command) {
	for _, cmd := range cmd.Commands() {
		out = append(out, commandsWithFlags(cmd)...)
		if cmd.Name() != "run" && cmd.LocalFlags().HasAvailableFlags() {
			out = append(out, cmd)
		}
	}
	return out
}

// documentCommand documents the flags of a command: its own, and which groups it shares with others.
func documentCommand(b *strings.Builder, flags *pflag.FlagSet) {
	shared := pflag.NewFlagSet("shared", pflag.ContinueOnError)
	var links []string
	for _, g := range sharedFlags() {
		if g.has(flags) {
			shared.AddFlagSet(g.flags)
			links = append(links, fmt.Sprintf("[%s](#%s)", g.name, g.anchor))
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && shared.Lookup(f.Name) == nil {
			documentFlag(b, f)
		}
	})
	if links != nil {
		fmt.Fprintf(b, "- %s\n", strings.Join(links, ", "))
	}
}

func documentFlag(b *strings.Builder, f *pflag.Flag) {
	name, usage := pflag.UnquoteUsage(f)
	if _, formats, found := strings.Cut(usage, "Output format"); found {
		fmt.Fprintf(b, "- `-%s`%s\n", f.Shorthand, strings.TrimSuffix(formats, "."))
		return
	}
	flag := strings.TrimSpace("--" + f.Name + " " + name)
	if f.Shorthand != "" {
		flag = "-" + f.Shorthand + ", " + flag
	}
	if v := strings.Trim(f.DefValue, "[]"); v != "" && v != "false" {
		flag += "` (`" + v + "`)"
	} else {
		flag += "`"
	}
	fmt.Fprintf(b, "- `%s: %s\n", flag, usage)
}

// TestEveryFlagHasItsVariable sets each flag of each command by its variable.
func TestEveryFlagHasItsVariable(t *testing.T) {
	samples := map[string]string{"bool": "true", "duration": "17s", "int": "7", "int64": "7", "stringSlice": "a,b", "string": "x"}
	words := map[string]string{"log-level": "warn", "log-format": "json", "etcd": "embedded"}
	for _, cmd := range (program{}).root().Commands() {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if console.Momentary(f.Name) {
				return
			}
			value := samples[f.Value.Type()]
			if word, found := words[f.Name]; found {
				value = word
			}
			p := program{Program: console.Program{LookupEnv: func(name string) (string, bool) { return value, name == "LOCKSTEP_"+screaming(f.Name) }}}
			flags := mustFind(t, p.root(), cmd.Name()).Flags()
			before := flags.Lookup(f.Name).Value.String()
			if err := p.ApplyEnv(flags); err != nil {
				t.Errorf("%s --%s: %v", cmd.Name(), f.Name, err)
			}
			if after := flags.Lookup(f.Name).Value.String(); after == before || strings.Trim(after, "[]") != value {
				t.Errorf("%s --%s: got %q, want %q", cmd.Name(), f.Name, after, value)
			}
		})
	}
}

func screaming(flag string) string { return strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) }

func mustFind(t *testing.T, root *cobra.Command, name string) *cobra.Command {
	t.Helper()
	cmd, _, err := root.Find([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestEveryOptionHasAFlag changes each flag of `run` and looks for a field of
// lockstep.Options that no flag changes.
func TestEveryOptionHasAFlag(t *testing.T) {
	opts := runflags.Default()
	defaults := runflags.Default()
	sample := map[string]string{"bool": "true", "duration": "17s", "int": "7", "int64": "7", "stringSlice": "a,b", "string": "x"}
	for _, s := range runflags.Sections(&opts) {
		s.Flags.VisitAll(func(f *pflag.Flag) {
			if !strings.HasPrefix(f.Name, "log-") {
				value := sample[f.Value.Type()]
				if f.Name == "etcd" {
					value = runflags.EmbeddedEtcd
				}
				if err := f.Value.Set(value); err != nil {
					t.Errorf("--%s: %v", f.Name, err)
				}
			}
		})
	}
	for before, after := range map[any]any{&defaults.Options: opts.Options, &defaults.External: opts.External, &defaults.Embedded: opts.Embedded} {
		was, is := reflect.ValueOf(before).Elem(), reflect.ValueOf(after)
		for i := range is.NumField() {
			// Etcd is one of the two others. The rest is for /flagz, which has all flags, and for programs that
			// embed a sidecar.
			if name := is.Type().Field(i).Name; name == "Etcd" || name == "Flags" || name == "MemberCommand" || name == "Registerer" {
				continue
			}
			if reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
				t.Errorf("%s.%s has no flag", is.Type(), is.Type().Field(i).Name)
			}
		}
	}
}

// TestOptionErrorsNameFlags: an error about an option names a flag that exists.
func TestOptionErrorsNameFlags(t *testing.T) {
	flags := mustFind(t, (program{}).root(), "run").Flags()
	for _, bad := range []lockstep.Options{
		{
			NodeID: "_", AdvertiseURL: "x", EtcdPrefix: "/", TLSCertFile: "c", ClientCAFile: "a",
			Etcd: lockstep.External{Servers: []string{"x"}, CertFile: "c"}, LeaseTTL: 1, ShutdownDelay: -1, ResyncInterval: 1, LeaderYieldAfter: -1, EtcdElectionTimeout: -1, ExpireDeadNodes: -1, ApplyConcurrency: -1,
		},
		{Ephemeral: true, Etcd: lockstep.External{KeyFile: "k"}, TLSKeyFile: "k", ClientCAFile: "a", Listen: "x"},
		{Listen: "0.0.0.0:1"},
		{NodeAddress: "x", Etcd: &lockstep.Embedded{}},
		{NodeAddress: "x", Etcd: lockstep.Embedded{Join: "x", Token: "x", TokenFile: "x"}},
		{Etcd: lockstep.Embedded{
			PeerPort: -1, ClientPort: -1, JoinPort: -1, QuotaBytes: -1, Join: "x", SnapshotEvery: -1, SnapshotKeep: -1,
		}},
	} {
		for _, err := range runflags.Split(bad.Validate()) {
			option, ok := errors.AsType[*lockstep.OptionError](err)
			if !ok || flags.Lookup(option.Flag) == nil {
				t.Errorf("%v: no such flag", err)
			}
		}
	}
}

func TestHelpFitsTheWidth(t *testing.T) {
	var out bytes.Buffer
	p := program{Program: console.Program{Stdout: &out, LookupEnv: func(string) (string, bool) { return "", false }}}
	if code := p.main(t.Context(), []string{"run", "--help"}); code != console.ExitOK {
		t.Fatalf("got exit code %d", code)
	}
	for line := range strings.SplitSeq(out.String(), "\n") {
		if len(line) > terminal.DefaultWidth {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
}

func TestFlagsInForce(t *testing.T) {
	opts := runflags.Default()
	sections := runflags.Sections(&opts)
	opts.External.Servers = []string{"https://u:secret@10.0.0.1:2379", "https://10.0.0.2:2379"}
	opts.Embedded.Token = "lockstep1.secret"
	got := runflags.InForce(sections)
	want := map[string]string{
		"etcd-servers": "https://u:xxxxx@10.0.0.1:2379,https://10.0.0.2:2379", "lease-ttl": "10s", "log-level": "info", "allow-mass-prune": "false",
		"token": "xxxxx",
	}
	for _, f := range got {
		if value, found := want[f.Name]; found && value != f.Value {
			t.Errorf("%s: got %q, want %q", f.Name, f.Value, value)
		}
		delete(want, f.Name)
	}
	if opts.External.Servers[0] != "https://u:secret@10.0.0.1:2379" {
		t.Errorf("the option itself was changed: %v", opts.External.Servers)
	}
	if len(want) > 0 || got[0].Name != "node-id" {
		t.Errorf("got %v; missing %v", got, want)
	}
}
