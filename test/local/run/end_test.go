package main

import (
	"errors"
	"io/fs"
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

// After Ctrl-C, the last lines say that all has ended, what stays, and what removes that.
func TestCleanUp_stopped(t *testing.T) {
	for want, n := range map[string]node{
		" is removed: nothing is left\n":                                {},
		"its etcd stays in /data, and the next run continues with it\n": {dataDir: "/data"},
		"\n    bin/sidecar node remove host --confirm-stopped --etcd-servers=http://e,http://f\n": {
			etcdServers: []string{"http://e", "http://f"}, cfg: cluster.SidecarConfig{NodeID: "host"},
		},
	} {
		dir := t.TempDir()
		c, err := cluster.Attach(cluster.Config{Assets: dir, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		p := newPrinter(&out, "bin")
		p.local = n.etcdServers == nil && n.dataDir == ""
		if err := cleanUp(c, n, cluster.Config{Dir: dir}, p, nil); err != nil || !strings.HasSuffix(out.String(), want) {
			t.Errorf("got %v and %s, want %s", err, out.String(), want)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want a directory that is removed", err)
		}
	}
}
