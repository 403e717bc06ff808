package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// build/release reads the pages from this directory.
var manDir = flag.String("man", "", "write the man pages to this `directory`, and keep them")

// TestManPages makes the man pages of all commands. The same program makes the same pages.
func TestManPages(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	root := program{Program: console.Program{Stdout: os.Stdout, Stderr: os.Stderr, LookupEnv: os.LookupEnv, Now: time.Now}}.root()
	root.DisableAutoGenTag = true
	// The date in the header is SOURCE_DATE_EPOCH, which build/release sets.
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "8", Source: "Lockstep", Manual: "Lockstep"}, dir); err != nil {
		t.Fatal(err)
	}
	for page, want := range map[string]string{
		"sidecar.8": "one reconciler, and a readiness gate", "sidecar-run.8": "--bundle", "sidecar-cluster-token-create.8": "--node",
	} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(strings.ReplaceAll(string(text), `\-`, "-"), want) {
			t.Errorf("%s does not have %q", page, want)
		}
	}
	if pages, err := filepath.Glob(filepath.Join(dir, "sidecar-etcd-member*")); err != nil || len(pages) > 0 {
		t.Errorf("a hidden command has the page %v (error %v)", pages, err)
	}
}
