package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

func TestOverride(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockstep", "override")
	type result struct {
		code           int
		stdout, stderr string
	}
	override := func(args ...string) result {
		code, stdout, stderr := call(t, program{}, append([]string{"override"}, args...)...)
		return result{code, stdout, stderr}
	}
	want := func(code int, part string, args ...string) {
		t.Helper()
		if got := override(args...); got.code != code || !strings.Contains(got.stdout+got.stderr, part) {
			t.Errorf("override %q: got %+v, want %d and %q", args, got, code, part)
		}
	}
	want(console.ExitUsage, "--for: 0s: must be at least 5s, and at most 24h0m0s, like --for=30m", "begin", "--yes", "--override-file", file)
	want(console.ExitUsage, "--for: 25h0m0s: must be", "begin", "--for=25h", "--yes", "--override-file", file)
	want(console.ExitUsage, "--message: has 257 bytes", "begin", "--for=1h", "--message", strings.Repeat("x", 257), "--override-file", file)
	want(console.ExitOK, "Nothing was changed. With --yes, this node serves", "begin", "--for=30m", "--override-file", file)
	if _, err := os.Stat(file); err == nil {
		t.Error("without --yes, the file exists")
	}
	want(console.ExitOK, "there is no override", "end", "--override-file", file)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"node": {"id": "a"}, "fleet": {"nodes": [
			{"id": "a", "warnings": [{"reason": "Overridden"}]}, {"id": "b", "warnings": []}, {"id": "c", "warnings": [{"reason": "Overridden"}]},
			{"id": "d", "warnings": [{"reason": "Overridden", "message": "OVERRIDDEN; to end that, type there: sidecar override end --override-file=/d"}]}]}}`)
	}))
	t.Cleanup(other.Close)
	want(console.ExitOK, "node c has one: to end that, type there: sidecar override end, with the --override-file of its sidecar\n"+
		"node d has one: to end that, type there: sidecar override end --override-file=/d\n", "end", "--override-file", file, "--server", other.URL)
	want(console.ExitOK, "THE GATE OF THIS NODE IS OVERRIDDEN until ", "begin", "--for=30m", "--message", "why", "--yes", "--override-file", file)
	want(console.ExitOK, "To end that now: sidecar override end --override-file="+file+"\n", "begin", "--for=30m", "--message", "why", "--yes", "--override-file", file)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("got %v, %v", info, err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasSuffix(string(text), "\nwhy\n") {
		t.Errorf("got %q, %v", text, err)
	}
	want(console.ExitOK, "the override has ended", "end", "--override-file", file)
	if _, err := os.Stat(file); err == nil {
		t.Error("the override has ended, and its file exists")
	}
	want(console.ExitFailed, "write the override: ", "begin", "--for=30m", "--yes", "--override-file", "/dev/null/override")
	want(console.ExitUsage, `unknown command "stop"`, "stop")
	want(console.ExitOK, "for a limited time", []string{}...)
}
