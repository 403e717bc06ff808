package quorum

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// pageStep is one of the numbered steps of a section of docs/clusters.md.
type pageStep struct {
	text     string
	commands []string // typed by people: lines that begin with $, or code that begins with sidecar
}

var (
	numbered    = regexp.MustCompile(`^\d+\. +(.*)`)
	commandLine = regexp.MustCompile(`^ +\$ (.*)`)
	commandCode = regexp.MustCompile("`(sidecar [^`]*)`")
)

// pageSteps reads the steps of the section with an anchor.
func pageSteps(t *testing.T, anchor string) []pageStep {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "clusters.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), `<a id="`+anchor+`"></a>`)
	section, _, more := strings.Cut(section, "\n<a id=")
	if !found || !more {
		t.Fatalf("docs/clusters.md has no section %s with another one behind it", anchor)
	}
	var steps []pageStep
	for line := range strings.Lines(section) {
		line = strings.TrimRight(line, "\n")
		begin, command := numbered.FindStringSubmatch(line), commandLine.FindStringSubmatch(line)
		last := len(steps) - 1
		switch {
		case begin != nil:
			steps = append(steps, pageStep{text: begin[1]})
		case last < 0 || !strings.HasPrefix(line, "   "):
		case command != nil:
			steps[last].commands = append(steps[last].commands, command[1])
		default:
			steps[last].text += " " + strings.TrimSpace(line)
		}
	}
	for i := range steps {
		for _, code := range commandCode.FindAllStringSubmatch(steps[i].text, -1) {
			steps[i].commands = append(steps[i].commands, code[1])
		}
	}
	return steps
}

// commands returns the commands of all steps of a section.
func commands(t *testing.T, anchor string) []string {
	t.Helper()
	var out []string
	for _, step := range pageSteps(t, anchor) {
		out = append(out, step.commands...)
	}
	return out
}

// wantSteps requires that each step of the page begins as the test expects it: a test
// cannot carry out a step that it does not know.
func wantSteps(t *testing.T, anchor string, begins ...string) []pageStep {
	t.Helper()
	steps := pageSteps(t, anchor)
	if len(steps) != len(begins) {
		t.Fatalf("docs/clusters.md#%s has %d steps, and this test can type %d: change it with the page: %+v", anchor, len(steps), len(begins), steps)
	}
	for i, s := range steps {
		if !strings.HasPrefix(s.text, begins[i]) {
			t.Fatalf("docs/clusters.md#%s: step %d is %q, and this test can type one that begins with %q: change it with the page", anchor, i+1, s.text, begins[i])
		}
	}
	return steps
}

// command runs a command of the sidecar on a node, as people type it there: the data
// directory is where they left it. It returns the output.
func (n *Node) command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := n.tryCommand(t, args...)
	if err != nil {
		t.Fatalf("on %s: sidecar %s: %v: %s", n.ID, strings.Join(args, " "), err, out)
	}
	return out
}

func (n *Node) tryCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.rig.cluster.SidecarBinary(), args...)
	cmd.Env = append(os.Environ(), append(n.clockEnv(), "LOCKSTEP_DATA_DIR="+n.Dir)...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

// typeStep types the one command of a step on a node, with values for its
// placeholders: old, new, old, new.
func (s pageStep) typeStep(t *testing.T, on *Node, placeholders ...string) string {
	t.Helper()
	if len(s.commands) != 1 {
		t.Fatalf("step %q has the commands %q, want one", s.text, s.commands)
	}
	words := strings.Fields(s.commands[0])[1:]
	for i, word := range words {
		for j := 0; j < len(placeholders); j += 2 {
			if word == placeholders[j] {
				words[i] = placeholders[j+1]
			}
		}
	}
	t.Logf("on %s: sidecar %s", on.ID, strings.Join(words, " "))
	return on.command(t, words...)
}

// printedRun returns the words after sidecar run of the command that a token command
// prints, and the token as a flag.
func printedRun(t *testing.T, output string) []string {
	t.Helper()
	for line := range strings.Lines(output) {
		words := strings.Fields(line)
		if len(words) < 4 || words[1] != "sidecar" || words[2] != "run" {
			continue
		}
		if secret, found := strings.CutPrefix(words[0], "LOCKSTEP_TOKEN="); found {
			return append(words[3:], "--token="+secret)
		}
	}
	t.Fatalf("no command to type in %s", output)
	return nil
}
