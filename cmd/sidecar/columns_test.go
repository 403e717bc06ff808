package main

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

// onScreen returns the table of a captured /status on a terminal of this width, without
// colours.
func onScreen(t *testing.T, base string, width int) string {
	t.Helper()
	return terminal.ColourCode.ReplaceAllString(tableOf(t, base, terminal.Screen{Width: width, Terminal: true, Coloured: true, Commands: program{}.root()}), "")
}

// TestSituationsFit shows every broken situation on terminals of two widths. No line is
// longer than the terminal is wide, no word is lost, and no command is broken in a way that
// a shell does not understand.
func TestSituationsFit(t *testing.T) {
	captures, err := filepath.Glob("testdata/situations/*/*.json")
	if err != nil || len(captures) == 0 {
		t.Fatalf("got %d captures, %v", len(captures), err)
	}
	for _, path := range captures {
		base := strings.TrimSuffix(path, ".json")
		for _, width := range []int{80, 120} {
			got := onScreen(t, base, width)
			for line := range strings.Lines(got) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s: %d columns of %d: %s", base, n, width, line)
				}
			}
			if want, got := letters(capturedTable(t, base)), letters(got); want != got {
				t.Errorf("%s at %d: (-want +got)\n%s", base, width, cmp.Diff(want, got))
			}
		}
	}
}

// letters returns the characters of a text in their order of the alphabet: columns that
// are wrapped change their places.
func letters(text string) string {
	var counts [256]int
	for _, b := range []byte(strings.ReplaceAll(text, terminal.Continued+"\n", "\n")) {
		counts[b]++
	}
	counts[' '], counts['\n'] = 0, 0
	var out strings.Builder
	for b, n := range counts {
		out.WriteString(strings.Repeat(string(rune(b)), n))
	}
	return out.String()
}

func TestWrap(t *testing.T) {
	s := terminal.Screen{Commands: program{}.root()}
	for _, test := range []struct {
		name, text string
		width      int
		want       []string
	}{
		{"no limit", "one two", 0, []string{"one two"}},
		{"words", "one two three", 8, []string{"one two", "three"}},
		{"a word that is too long", "at https://10.0.0.1:2379 now", 10, []string{"at", "https://10", ".0.0.1:237", "9 now"}},
		{"a command that fits into a line has one", "end it: sidecar uncordon cp-2; or wait", 24, []string{"end it:", "sidecar uncordon cp-2;", "or wait"}},
		{"a command that does not fit goes on as shells want it", "type: sidecar uncordon cp-2 --etcd-servers=http://10.0.0.1:2379 (yes)", 38,
			[]string{"type:", `sidecar uncordon cp-2 \`, "--etcd-servers=http://10.0.0.1:2379", "(yes)"}},
		{"words in quotes stay together", "sidecar uncordon a --data-dir='/my dir' x", 30, []string{`sidecar uncordon a \`, "--data-dir='/my dir' x"}},
		{"a sentence about a sidecar", "start the sidecar of node cp-2 again", 20, []string{"start the sidecar of", "node cp-2 again"}},
		{"before another command", "or: sidecar turn --data-dir=/var/lib/lockstep -- COMMAND; wait", 40,
			[]string{"or:", `sidecar turn \`, "--data-dir=/var/lib/lockstep -- COMMAND;", "wait"}},
		{"into another command", "type: sidecar bundle rights /etc/lockstep/bundle --all | kubectl apply -f -; they are", 50,
			[]string{"type:", `sidecar bundle rights /etc/lockstep/bundle --all \`, "| kubectl apply -f -; they are"}},
		{"a sentence about turns", "waits, since sidecar turn runs there", 22, []string{"waits, since sidecar", "turn runs there"}},
		{"programs of others", "type: etcdctl --endpoints=x compaction 217; etcdctl defrag", 28,
			[]string{"type:", `etcdctl --endpoints=x \`, "compaction 217;", "etcdctl defrag"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, s.Wrap(test.text, test.width)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
