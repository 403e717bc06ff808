package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// After a failure, the data stays, and the error says how the node starts again. A node without a file of settings
// cannot.
func TestCleanUp_failed(t *testing.T) {
	dir := t.TempDir()
	n := node{own: joining{settings: filepath.Join(dir, "local.env")}}
	c, err := cluster.Attach(cluster.Config{Assets: dir, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		var out strings.Builder
		got := cleanUp(c, n, cluster.Config{Dir: dir, LogDir: "/logs"}, newPrinter(&out, ""), errors.New("the sidecar was killed")).Error()
		if strings.Contains(got, ": . "+n.own.settings+" && sidecar run\n") != again || !strings.Contains(got, "the sidecar was killed\nlogs are in /logs\n") ||
			!strings.HasSuffix(got, "\nto remove everything: rm -r "+dir) {
			t.Errorf("got %s", got)
		}
		if err := os.WriteFile(n.own.settings, nil, 0o600); err != nil { // fails if the directory was removed
			t.Fatal(err)
		}
	}
}
