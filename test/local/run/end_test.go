package main

import (
	"errors"
	"io/fs"
	"net"
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

// attached returns a cluster without processes, and its directory.
func attached(t *testing.T) (*cluster.Cluster, string) {
	t.Helper()
	dir := t.TempDir()
	c, err := cluster.Attach(cluster.Config{Assets: dir, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return c, dir
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
		c, dir := attached(t)
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

// A node that joined needs its data, which is in the same directory.
func TestCleanUp_othersRun(t *testing.T) {
	b, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := node{own: joining{settings: "/x/local.env"}, more: []joining{{id: "b", url: "http://" + b.Addr().String(), dir: t.TempDir()}, {id: "c", dir: "/did/not/join"}}}
	const slow = "takes up to 30 s"
	c, dir := attached(t)
	var out strings.Builder
	p := newPrinter(&out, "bin")
	p.local = true
	if err := cleanUp(c, n, cluster.Config{Dir: dir}, p, nil); err != nil || !strings.Contains(out.String(), "b still runs, so the data of all nodes stays in "+dir) ||
		!strings.Contains(out.String(), "to start this node again: . /x/local.env && sidecar run\n") || strings.Contains(out.String(), slow) {
		t.Errorf("got %v and %s", err, &out)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("b runs: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cleanUp(c, n, cluster.Config{Dir: dir}, p, nil); err != nil || !strings.HasSuffix(out.String(), "nothing is left\n") || !strings.Contains(out.String(), slow) {
		t.Errorf("b has stopped: got %v and %s", err, &out)
	}
}

// A shell with the settings of another node has its address: what answers there is not the new node.
func TestFreeListen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCKSTEP_LISTEN", l.Addr().String())
	if err := run(t.Context(), settings{}, nil, nil); err == nil || !strings.Contains(err.Error(), "settings of another node") {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(l.Close(), freeListen()); err != nil {
		t.Error(err)
	}
	t.Setenv("LOCKSTEP_LISTEN", "")
	if err := freeListen(); err != nil {
		t.Error(err)
	}
}

// Who types a command into this terminal learns where it belongs.
func TestRejected(t *testing.T) {
	for typed, want := range map[string]bool{"sidecar status": true, t.TempDir(): false} {
		var out strings.Builder
		newPrinter(&out, "bin").rejected(typed, errors.New("no bundle"))
		if got := strings.Contains(out.String(), "Type commands in another terminal"); got != want || !strings.HasPrefix(out.String(), "  no bundle\n") {
			t.Errorf("%s: got %s", typed, &out)
		}
	}
}
