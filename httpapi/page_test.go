package httpapi

import (
	"regexp"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/lockstep-dev/lockstep/history"
)

func TestPage(t *testing.T) {
	w := get(t, newFixture(t, Snapshot{}).Handler(), "/")
	policy := w.Header().Get("Content-Security-Policy")
	for _, element := range []string{"script", "style"} {
		if got := strings.Count(pageHTML, "<"+element); got != 1 {
			t.Errorf("got %d elements %s, want one: the policy allows no other", got, element)
		}
		if hash := contentHash(pageHTML, element); !strings.Contains(policy, "'"+hash+"'") || hash == contentHash("", element) {
			t.Errorf("the policy does not allow the page's %s: %s", element, policy)
		}
	}
	if inline := regexp.MustCompile(`(?i)\s(on[a-z]+|style)=`).FindString(pageHTML[:strings.Index(pageHTML, "<script>")]); inline != "" {
		t.Errorf("%q is an inline handler or style, which the policy blocks", inline)
	}
	if external := regexp.MustCompile(`(?i)(src|href)="(/|[^"d][a-z]*:)|//[a-z0-9.-]+\.[a-z]`).FindString(pageHTML); external != "" {
		t.Errorf("%q: the page must be whole by itself, and work below any path", external)
	}
	if n := len(pageHTML); n >= 100_000 {
		t.Errorf("the page has %d bytes, want less than 100,000", n)
	}
	for _, unsafe := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("} {
		if strings.Contains(pageHTML, unsafe) {
			t.Errorf("%s: what is shown comes from other nodes and must be set as text", unsafe)
		}
	}
}

// TestPageNamesFields holds the script to the report, and to the history: each field that it reads
// must exist.
func TestPageNamesFields(t *testing.T) {
	shown := get(t, newFixture(t, states(t)[1].snap).Handler(), "/status").Body.String() + indented(NewEntries([]history.Entry{{}}))
	script := pageHTML[strings.Index(pageHTML, "<script>"):]
	for _, m := range regexp.MustCompile(`\b(?:s|r|e|n|f|b|o|w|m|k|v|s\.[a-zA-Z]+)\??\.([a-z][A-Za-z]+)\b`).FindAllStringSubmatch(script, -1) {
		switch m[1] {
		case "map", "filter", "length", "includes", "step": // of JavaScript, and an object
			continue
		}
		if !strings.Contains(shown, `"`+m[1]+`"`) {
			t.Errorf("%s: the report has no field %q", m[0], m[1])
		}
	}
}

// TestPageScriptParses parses the script as a browser does: one that does not parse
// shows nothing at all.
func TestPageScriptParses(t *testing.T) {
	_, rest, _ := strings.Cut(pageHTML, "<script>")
	script, _, _ := strings.Cut(rest, "</script>")
	for _, problem := range api.Transform(script, api.TransformOptions{Loader: api.LoaderJS}).Errors {
		t.Errorf("line %d of the script, %q: %s", problem.Location.Line, problem.Location.LineText, problem.Text)
	}
}
