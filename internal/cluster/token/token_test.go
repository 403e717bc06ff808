package token

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cputime"
)

func TestParse(t *testing.T) {
	want := newToken(pki.Hash{1, 2, 3})
	text := want.Text()
	if len(text) != tokenTextLen {
		t.Errorf("got %d characters, want %d", len(text), tokenTextLen)
	}
	for name, typed := range map[string]string{
		"as it is":               text,
		"with spaces around":     " \t" + text + "\r\n",
		"broken over lines":      text[:40] + "\n  " + text[40:80] + "\r\n" + text[80:],
		"with a space inside":    text[:30] + " " + text[30:],
		"in upper case":          strings.ToUpper(text),
		"with a zero width":      "\ufeff" + text[:20] + "\u200b" + text[20:],
		"o for 0, and l for 1":   prefix + strings.NewReplacer("0", "o", "1", "l").Replace(strings.TrimPrefix(text, prefix)),
		"with no-break spaces":   "\u00a0" + text,
		"O for 0, and I for 1":   prefix + strings.NewReplacer("0", "O", "1", "I").Replace(strings.TrimPrefix(text, prefix)),
		"from its own text only": mustParse(t, text).Text(),
	} {
		if got, err := Parse(typed); err != nil || got != want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func mustParse(t *testing.T, text string) Token {
	t.Helper()
	out, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestParse_findsTypingErrors: every single wrong character, every two neighbours
// that are swapped, and every cut.
func TestParse_findsTypingErrors(t *testing.T) {
	text := newToken(pki.Hash{0xff}).Text()
	refused := func(what, typed string) {
		t.Helper()
		_, err := Parse(typed)
		if !errors.Is(err, ErrText) {
			t.Errorf("%s: got %v, want ErrText", what, err)
		} else if !strings.Contains(err.Error(), "sidecar cluster token create") {
			t.Errorf("%s: %q does not say what to do", what, err)
		}
	}
	for i := range text {
		for _, c := range "0123456789abcdefghjkmnpqrstvwxyz.-!ü" {
			if string(c) != text[i:i+1] {
				refused(fmt.Sprintf("character %d is %q", i, c), text[:i]+string(c)+text[i+1:])
			}
		}
		if i > 0 && text[i-1] != text[i] {
			refused(fmt.Sprintf("characters %d and %d are swapped", i-1, i), text[:i-1]+text[i:i+1]+text[i-1:i]+text[i+1:])
		}
		refused(fmt.Sprintf("cut after %d characters", i), text[:i])
		refused(fmt.Sprintf("without its first %d characters", i+1), text[i+1:])
		refused(fmt.Sprintf("without character %d", i), text[:i]+text[i+1:])
	}
	refused("pasted twice", text+text)
	refused("pasted twice, as two words", text+" "+text)
	refused("another version", strings.Replace(text, "lockstep1", "lockstep2", 1))
	refused("very long", strings.Repeat("a", 1<<20))
	refused("a kubeadm token", "abcdef.0123456789abcdef")
}

// TestSecretsAreHidden: a token in a log message or an error does not show its secret.
func TestSecretsAreHidden(t *testing.T) {
	tok := newToken(pki.Hash{})
	for i := range tok.Secret {
		tok.Secret[i] = 0xab
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, value := range []any{tok, &tok, tok.Secret, struct{ Token Token }{tok}} {
			if got := strings.ToLower(fmt.Sprintf(format, value)); strings.Contains(got, "abab") || strings.Contains(got, "0xab") || strings.Contains(got, "171 171") {
				t.Errorf("%s of %T shows the secret: %s", format, value, got)
			}
		}
	}
	// Neither does the error about a mistyped one.
	text := tok.Text()
	_, err := Parse(text[:len(text)-1] + "!")
	if err == nil || strings.Contains(err.Error(), text[20:60]) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Token{ID: "000000"}.Text())
	f.Add(Token{ID: "zzzzzz", CA: pki.Hash{1}, Secret: Secret{2}}.Text())
	f.Add("lockstep1..")
	f.Add("lockstep1.\u212a00000.")
	f.Add("")
	f.Add(strings.Repeat("lockstep1.", 1<<12))
	f.Fuzz(func(t *testing.T, text string) {
		var got Token
		var err error
		cost, problem := cputime.Of(func() { got, err = Parse(text) })
		if problem != nil || cost > 30*time.Millisecond {
			t.Errorf("%d bytes cost %s, %v", len(text), cost, problem)
		}
		if err != nil {
			if !errors.Is(err, ErrText) {
				t.Errorf("got %v, want ErrText", err)
			}
			return
		}
		again, err := Parse(got.Text())
		if err != nil || again != got {
			t.Errorf("%q: got %v and then %v, %v", text, got, again, err)
		}
	})
}
