package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// wantGolden compares the output of a command with a file, which programs of others rely on.
func wantGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "json", name+".json")
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, path, got)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", name, diff)
	}
}

// TestJSON compares the output of commands with -o json with files.
func TestJSON(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, path, text)
	}
	write("good/bundle.yaml", "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: acme}\nrelease: 1.2.0\nminReconcilerRelease: 1.1.0\nminApiserverRelease: 1.1.0\n")
	write("good/a.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: acme}\n")
	write("bad/bundle.yaml", "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: acme}\nrelase: 1.2.0\n")
	const service = "apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: %}\nrole: kubernetes_controller\nprocess: {command: [/bin/sh]}\n"
	write("services/10-api.yaml", string(bytes.ReplaceAll([]byte(service), []byte("%"), []byte("api"))))
	write("sick/10-api.yaml", "apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: api}\nrole: king\n")
	outputs := map[string]string{}
	for name, test := range map[string]struct {
		args []string
		code int
	}{
		"bundle-validate":          {[]string{"bundle", "validate", "good"}, console.ExitOK},
		"bundle-validate-from":     {[]string{"bundle", "validate", "good", "--from=1.1.0,1.0.0"}, console.ExitFailed},
		"bundle-validate-invalid":  {[]string{"bundle", "validate", "bad"}, console.ExitFailed},
		"service-validate":         {[]string{"service", "validate", "services"}, console.ExitOK},
		"service-validate-invalid": {[]string{"service", "validate", "sick"}, console.ExitFailed},
	} {
		code, out, errs := call(t, program{}, append(test.args, "-o", "json")...)
		if code != test.code || errs != "" {
			t.Errorf("%s: got %d and %q", name, code, errs)
		}
		outputs[name] = out
	}
	t.Chdir(packageDir)
	for name, out := range outputs {
		wantGolden(t, name, out)
	}
}

// packageDir is the directory of this package.
var packageDir, _ = os.Getwd()

// A command with -o json that fails before it printed anything prints why as a document, and keeps its exit code. One
// that printed its report does not print a second document.
func TestJSON_errors(t *testing.T) {
	t.Chdir(t.TempDir())
	f := newFakeSidecar()
	t.Cleanup(f.Close)
	for _, tt := range []struct {
		args []string
		code int
		want string // in the error
	}{
		{[]string{"status", "--server", "http://127.0.0.1:1"}, console.ExitFailed, "connection refused"},
		{[]string{"status", "surplus"}, console.ExitUsage, `unexpected argument "surplus"`},
		{[]string{"status", "--nope"}, console.ExitUsage, "unknown flag: --nope"},
		{[]string{"bundle", "validate", "missing"}, console.ExitFailed, "missing"},
		{[]string{"service", "validate", "missing"}, console.ExitFailed, "missing"},
		{[]string{"cordon", "NO"}, console.ExitUsage, `"NO" is not a node ID`},
		{[]string{"plan"}, console.ExitUsage, "--bundle: required"},
	} {
		code, out, errs := call(t, program{}, append([]string{tt.args[0]}, append(tt.args[1:], "-o", "json")...)...)
		if tt.args[len(tt.args)-1] == "--nope" { // what follows it is not read
			code, out, errs = call(t, program{}, "status", "-o", "json", "--nope")
		}
		var got map[string]string
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 1 || !strings.Contains(got["error"], tt.want) {
			t.Errorf("%v: got %q, %v", tt.args, out, err)
		}
		if code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("%v: got %d and %q", tt.args, code, errs)
		}
	}
	if code, out, _ := call(t, program{}, "status", "--server", "http://127.0.0.1:1"); code != console.ExitFailed || out != "" {
		t.Errorf("for people: got %d and %q", code, out)
	}
	mustWrite(t, "bundle.yaml", "relase: 1.2.0\n")
	if _, out, _ := call(t, program{}, "bundle", "validate", ".", "-o", "json"); !json.Valid([]byte(out)) || !strings.Contains(out, `"valid": false`) {
		t.Errorf("a report: got %q", out)
	}
}
