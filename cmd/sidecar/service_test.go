package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// example is a file that docs/roles.md shows: its first line is its name.
var example = regexp.MustCompile("(?s)```yaml\n# (services/[^\n]+)\n(.*?)```")

// The files on the page can be copied: the command accepts them.
func TestServiceExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "roles.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, m := range example.FindAllStringSubmatch(string(page), -1) {
		file := filepath.Join(dir, filepath.FromSlash(m[1]))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(m[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	p := program{Program: console.Program{Stdout: &stdout, Stderr: &stderr, LookupEnv: func(string) (string, bool) { return "", false }}}
	if code := p.main(t.Context(), []string{"service", "validate", "--skip-files", filepath.Join(dir, "services")}); code != console.ExitOK {
		t.Fatalf("got exit code %d\n%s%s", code, &stdout, &stderr)
	}
	for _, driver := range []string{"process", "systemdUnit", "staticPod"} {
		if strings.Count(stdout.String(), ", "+driver+",") != 1 {
			t.Errorf("want one example of %s:\n%s", driver, &stdout)
		}
	}
}
