package shell

import (
	"os/exec"
	"strings"
	"testing"
)

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"/etc/a-b_c.yaml": "/etc/a-b_c.yaml", "--x=1,2:3%@+[]": "--x=1,2:3%@+[]",
		"a b": "'a b'", "$HOME": "'$HOME'", "it's": `'it'\''s'`, "ä": "'ä'", "~": "'~'", "": "''",
	} {
		if got := Quote(word); got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
	}
}

// A shell reads the words again that were quoted, whatever is in them.
func TestLine(t *testing.T) {
	words := []string{"plain", "a b", "", "it's", "$(id) `id` \\ \" * ? ; & | < > # ! ~ {a,b}", "two\nlines", "ä€", "=", "-n"}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", Line(append([]string{"printf", `%s\000`}, words...))).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out), strings.Join(words, "\x00")+"\x00"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
