package quorum

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestSchedule_drill: a node saves snapshots by itself, loses its etcd, and is restored from the newest one
// that is not damaged. Where none can be saved any more, it warns.
func TestSchedule_drill(t *testing.T) {
	t.Parallel()
	flags := []string{"--snapshot-every=1s", "--snapshot-keep=2"}
	n := New(t, "").Node("a")
	n.Start(flags...)
	n.AwaitRunning()
	n.Put(n.Client(), "/test/saved", "x")
	put := time.Now()
	for range 2 { // so that two hold the key
		n.awaitSnapshot(t, put)
		put = time.Now()
	}
	if out := n.command(t, "status", "--server", n.URL()); !strings.Contains(out, "newest snapshot of this node saved") {
		t.Errorf("got\n%s", out)
	}
	KillAll(n)
	files, err := filepath.Glob(filepath.Join(n.Dir, "snapshots", "*.db"))
	if err != nil || len(files) != 2 {
		t.Fatalf("got %v, %v", files, err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(n.Dir, "etcd")), os.Truncate(slices.Max(files), 100)); err != nil {
		t.Fatal(err)
	}
	out := n.command(t, "cluster", "restore", "--latest", "--confirm-stopped")
	if !strings.Contains(out, slices.Min(files)+" restored") {
		t.Errorf("got\n%s", out)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(n.Dir, "snapshots")), os.WriteFile(filepath.Join(n.Dir, "snapshots"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	n.Start(flags...)
	n.AwaitRunning()
	if got := n.Keys(n.Client(), "/test/"); !slices.Equal(got, []string{"/test/saved"}) {
		t.Errorf("got %v", got)
	}
	cluster.Await(t, "a warning", func(context.Context) error {
		if out := n.command(t, "status", "--server", n.URL()); !strings.Contains(out, "saves a snapshot of etcd every 1s, and has none: ") {
			return fmt.Errorf("got\n%s", out)
		}
		return nil
	})
}

// awaitSnapshot waits for one that was saved after a time.
func (n *Node) awaitSnapshot(t *testing.T, after time.Time) {
	t.Helper()
	n.AwaitCluster("to save a snapshot", func(now Cluster) error {
		if s := now.Snapshots; s.Newest == nil || !s.Newest.After(after) || s.EverySeconds != 1 || s.Problem != "" {
			return fmt.Errorf("got %+v", s)
		}
		return nil
	})
}
