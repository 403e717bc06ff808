package page_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/page"
)

// TestEveryCommand: whichever command a message has, at its end or among others, a click copies
// it, with its flags.
func TestEveryCommand(t *testing.T) {
	flags, err := os.ReadFile("../../docs/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile(`(?m)^## (sidecar .*)$`).FindAllStringSubmatch(string(flags), -1)
	if len(headings) < 35 {
		t.Fatalf("got %d commands in docs/flags.md", len(headings))
	}
	url := servePage(t)
	b := startBrowser(t)
	if err := b.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if err := b.Eval(t.Context(), fmt.Sprintf(keepCopies, secureClipboard), nil); err != nil {
		t.Fatal(err)
	}
	for _, heading := range headings {
		for name := range strings.SplitSeq(heading[1], ", ") {
			command := name + " a --x=b"
			message, err := json.Marshal(fmt.Sprintf("it waits; to see why: %s; or type %[1]s, or %[1]s", command))
			if err != nil {
				t.Fatal(err)
			}
			raw := fmt.Sprintf(`{"node": {"id": "a"}, "warnings": [{"message": %s}]}`, message)
			showReport(t, b, report{name, json.RawMessage(raw), time.Unix(1e9, 0)})
			if got := copyAll(t, b, name); len(got) != 3 || got[0] != command || got[1] != command || got[2] != command {
				t.Errorf("copied %q, want three times %q", got, command)
			}
		}
	}
}

// keepCopies lets the page keep what is copied, in a browser with this clipboard.
const keepCopies = `copied = []; Object.defineProperty(navigator, "clipboard", {value: %s, configurable: true});
	document.oncopy = () => copied.push(document.activeElement.value)`

// secureClipboard is what a browser has over HTTPS.
const secureClipboard = `{writeText: async (text) => copied.push(text)}`

// TestCommands copies every command of every situation, with navigator.clipboard and
// without, as a browser has it over plain HTTP.
func TestCommands(t *testing.T) {
	url := servePage(t)
	b := startBrowser(t)
	if err := b.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for name, clipboard := range map[string]string{"HTTPS": secureClipboard, "HTTP": `undefined`} {
		t.Run(name, func(t *testing.T) {
			if err := b.Eval(t.Context(), fmt.Sprintf(keepCopies, clipboard), nil); err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, r := range reports(t) {
				showReport(t, b, r)
				for _, command := range copyAll(t, b, r.name) {
					words := strings.Fields(command)
					seen[words[0]], seen[strings.Join(words[:2], " ")] = true, true
				}
			}
			for _, want := range []string{"sidecar node", "sidecar uncordon", "sidecar store", "sidecar history", "etcdctl"} {
				if !seen[want] {
					t.Errorf("no command %q was copied: %v", want, seen)
				}
			}
		})
	}
}

// copyAll clicks all buttons of a report, and returns what was copied.
func copyAll(t *testing.T, b *page.Browser, name string) []string {
	t.Helper()
	var got, want []string
	err := b.Eval(t.Context(), `(async () => {
		copied.length = 0;
		const buttons = [...document.querySelectorAll(".command button")];
		for (const button of buttons) button.click();
		await new Promise((done) => setTimeout(done));
		return copied;
	})()`, &got)
	if err == nil {
		err = b.Eval(t.Context(), `[...document.querySelectorAll(".command code")].map((c) => c.textContent)`, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: copied %q, want %q", name, got, want)
	}
	for _, command := range got {
		if !regexp.MustCompile(`^(sidecar|etcdctl|kubectl) [^` + "`" + `();]*[^ .,:]$`).MatchString(command) {
			t.Errorf("%s: %q is no command", name, command)
		}
	}
	return got
}

// TestDatabases shows how much of its quota each member of etcd uses, as sidecar status does.
func TestDatabases(t *testing.T) {
	url := servePage(t)
	b := startBrowser(t)
	if err := b.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	const raw = `{"node": {"id": "a"}, "cluster": {"state": "Running", "members": [
		{"node": "a", "address": "10.0.0.1", "leader": true, "healthy": true, "dbSizeBytes": 429496725, "dbQuotaBytes": 8589934592},
		{"node": "b", "address": "10.0.0.2", "healthy": true, "dbSizeBytes": 0, "dbQuotaBytes": 16777216},
		{"node": "c", "address": "10.0.0.3", "problem": "it does not answer"}]}}`
	for _, v := range views {
		if err := b.Resize(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		showReport(t, b, report{"databases", json.RawMessage(raw), time.Unix(1e9, 0)})
		wantLayout(t, b, fmt.Sprintf("databases at %d", v.Width))
		takeShot(t, b, "databases", v)
	}
	var got string
	err := b.Eval(t.Context(), `[...document.querySelectorAll("#members [data-label='DB size']")].map((c) => c.textContent).join("; ")`, &got)
	if want := "5 % of 8.0 GiB; below 1 % of 16.0 MiB; –"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
