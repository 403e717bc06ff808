package quorum

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// createSteps are the steps of a creation. A test of package cluster compares them.
var createSteps = []string{"directory", "marker", "ca", "certificate", "etcd", "member", "ready", "record", "announce", "phase"}

// wantOneMember requires that the cluster looks as after one creation.
func wantOneMember(t *testing.T, n *Node) {
	t.Helper()
	c, marker := n.Client(), n.Marker()
	if marker.Phase != datadir.Member {
		t.Errorf("the marker has the phase %s", marker.Phase)
	}
	want := []string{"/lockstep/cluster/members/" + marker.MemberID, "/lockstep/cluster/record"}
	if got := n.Keys(c, "/lockstep/cluster/"); !slices.Equal(got, want) {
		t.Errorf("etcd has %v, want %v", got, want)
	}
	resp, err := c.Get(t.Context(), want[1])
	if err != nil {
		t.Fatal(err)
	}
	if r, err := record.DecodeCluster(resp.Kvs[0].Value); err != nil || r.ID != marker.Cluster {
		t.Errorf("the cluster's record: got %+v, %v, want the ID %s", r, err, marker.Cluster)
	}
}

// restartSteps are the steps of a start with the directory of a member.
var restartSteps = []string{"directory", "certificate", "member", "ready", "identity", "record", "announce"}

// A node that creates its cluster is killed after each step, or stopped gracefully: each start with the same
// flags goes on one step further, and the cluster is the one that the first start began.
func TestCreate_endedAfterEachStep(t *testing.T) {
	t.Parallel()
	binary := cluster.BuildSteps(t)
	for how, code := range endedBy {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			n := New(t, binary).Node("a")
			var before datadir.Marker
			for _, step := range createSteps {
				n.startUntil(how, "create/"+step)
				if got := n.ExitCode(); got != code {
					t.Fatalf("%s: got exit code %d, want %d; %s", step, got, code, n.Ending())
				}
				now, err := datadir.Layout(n.Dir).ReadMarker()
				if err != nil && (step != "directory" || !errors.Is(err, datadir.ErrNoMarker)) {
					t.Fatal(err)
				}
				wantSameCluster(t, before, now)
				before = now
				if how == stopAfter && now.Phase == datadir.Member {
					break // while it stopped, it took the last step
				}
			}
			n.Start()
			n.AwaitRunning()
			wantOneMember(t, n)
			wantSameCluster(t, before, n.Marker())
		})
	}
}

// wantSameCluster requires that a marker still has the names that it had before, if it had any.
func wantSameCluster(t *testing.T, before, after datadir.Marker) {
	t.Helper()
	if before.Cluster != "" && after.Cluster != before.Cluster || before.CAHash != "" && after.CAHash != before.CAHash {
		t.Errorf("it is another cluster now: before %+v, after %+v", before, after)
	}
}

// stopAfter is the variable that stops a sidecar of the test build gracefully after a step.
const stopAfter = "LOCKSTEP_STOP_AFTER_STEP"

// endedBy are the variables that end a sidecar of the test build after a step, and its exit
// code then.
var endedBy = map[string]int{"LOCKSTEP_EXIT_AFTER_STEP": -1, stopAfter: 0} // -1: by a signal

// startUntil starts a sidecar that ends after a step.
func (n *Node) startUntil(how, step string) {
	n.StartWith([]string{how + "=" + step}, "--shutdown-delay=0s")
}

// The same of a node that runs a member: it comes back with all that was acknowledged.
func TestRestart_endedAfterEachStep(t *testing.T) {
	t.Parallel()
	n := New(t, cluster.BuildSteps(t)).Node("a")
	n.Start("--shutdown-delay=0s")
	n.AwaitRunning()
	first := n.Marker()
	n.Put(n.Client(), "/test/key", "x")
	for how, code := range endedBy {
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		for _, step := range restartSteps {
			n.startUntil(how, "restart/"+step)
			if got := n.ExitCode(); got != code {
				t.Fatalf("%s %s: got exit code %d, want %d; %s", how, step, got, code, n.Ending())
			}
			if now := n.Marker(); now != first {
				t.Errorf("%s %s: got the marker %+v, want %+v", how, step, now, first)
			}
		}
		n.Start("--shutdown-delay=0s")
		n.AwaitRunning()
		if got := n.Keys(n.Client(), "/test/"); len(got) != 1 {
			t.Errorf("%s: got %v", how, got)
		}
		wantOneMember(t, n)
	}
}

// Stopped and killed in every way, the member comes back with all that was
// acknowledged.
func TestRestart(t *testing.T) {
	t.Parallel()
	n := New(t, "").Node("a")
	n.Start()
	n.AwaitRunning()
	wantOneMember(t, n)
	first := n.Marker()
	var want []string
	for round, end := range []func() error{
		func() error { return n.Stop() },
		func() error { return n.Kill() },
		func() error { KillAll(n); return nil },
		func() error { return errors.Join(syscall.Kill(n.MemberPID(), syscall.SIGKILL), n.Kill()) },
	} {
		c := n.Client()
		for i := range 5 {
			key := fmt.Sprintf("/test/%d-%d", round, i)
			n.Put(c, key, "x")
			want = append(want, key)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		n.Start()
		n.AwaitRunning()
		if got := n.Keys(n.Client(), "/test/"); !slices.Equal(got, want) {
			t.Errorf("round %d: got %v, want %v", round, got, want)
		}
		if now := n.Marker(); now != first {
			t.Errorf("round %d: got the marker %+v, want %+v", round, now, first)
		}
		wantOneMember(t, n)
	}
}

// The end of the member's process does not end the sidecar: the member is started
// again, and the status shows why it ended.
func TestMemberKilled(t *testing.T) {
	t.Parallel()
	n := New(t, "").Node("a")
	n.Start()
	n.AwaitRunning()
	pid := n.MemberPID()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.AwaitCluster("to show that its member was killed", func(c Cluster) error {
		if c.State != "Running" || !strings.Contains(c.Error, "killed") {
			return fmt.Errorf("got %+v", c)
		}
		return nil
	})
	n.AwaitCluster("to have its member again", func(c Cluster) error {
		if c.Error != "" {
			return fmt.Errorf("got %+v", c)
		}
		return nil
	})
	n.AwaitRunning()
	if again := n.MemberPID(); again == pid || again == 0 {
		t.Errorf("the member's process is %d, before %d", again, pid)
	}
}

// The second sidecar of a directory waits for the first one a while, then ends. The
// first one goes on.
func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	rig := New(t, "")
	n := rig.Node("a")
	n.Start()
	n.AwaitRunning()
	second := rig.Node("b")
	second.ID, second.Dir = n.ID, n.Dir
	got := second.Refused("--node-address=" + n.Address)
	want := fmt.Sprintf("data directory: %q is in use by the process %d: stop that one first, or give this sidecar another --data-dir", n.Dir, n.PID())
	if !strings.HasSuffix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	n.AwaitRunning()
	wantOneMember(t, n)
}

// A sidecar that is killed leaves a member that stops by itself: the next sidecar
// waits for it.
func TestMemberStillStopping(t *testing.T) {
	t.Parallel()
	n := New(t, "").Node("a")
	n.Start()
	n.AwaitRunning()
	thaw := cluster.Freeze(t, n.MemberPID())
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	n.Start()
	n.AwaitCluster("to wait for the member of the sidecar before it", func(c Cluster) error {
		if c.State != "RestartingMember" || !strings.Contains(c.Error, "is in use by") {
			return fmt.Errorf("got %+v", c)
		}
		return nil
	})
	thaw()
	n.AwaitRunning()
}

// A sidecar refuses a directory that does not fit it, says what to do, and changes nothing but the file that says how it ended.
// The other cases are tests of package datadir.
func TestRefused(t *testing.T) {
	t.Parallel()
	rig := New(t, "")
	n := rig.Node("a")
	n.Start()
	n.AwaitRunning()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Run("another node", func(t *testing.T) {
		other := rig.Node("b")
		other.Dir, other.Address = n.Dir, n.Address
		want := fmt.Sprintf(`data directory: %q is that of node "a", and this sidecar is node "b": start it with --node-id=a, or give this sidecar a directory of its own with --data-dir`, n.Dir)
		wantRefused(t, other, want)
	})
	t.Run("a key that other users can read", func(t *testing.T) {
		key := datadir.Layout(n.Dir).CAKey()
		if err := os.Chmod(key, 0o644); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, n, fmt.Sprintf("data directory: %q has the mode 0644: other users may have read or changed it: if they did not, type: chmod 600 %s", key, key))
		if err := os.Chmod(key, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("no log of etcd", func(t *testing.T) {
		log := filepath.Join(datadir.Layout(n.Dir).Etcd(), "member", "wal")
		if err := os.Rename(log, log+".away"); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, n, fmt.Sprintf("data directory: %q has no log of etcd: an old copy of the directory must not be used; replace this node: on another one type `sidecar cluster remove %s", log, n.Marker().MemberID))
		if err := os.Rename(log+".away", log); err != nil {
			t.Fatal(err)
		}
	})
	n.Start()
	n.AwaitRunning()
	wantOneMember(t, n)
}

func wantRefused(t *testing.T, n *Node, want string) {
	t.Helper()
	before := tree(t, n.Dir)
	if got := n.Refused(); !strings.Contains(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if after := tree(t, n.Dir); !slices.Equal(before, after) {
		t.Errorf("the directory was changed: before %v\nafter %v", before, after)
	}
}

// tree lists all files with mode, size and time of the last change, but not how the last sidecar ended.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && path != dir && path != datadir.Layout(dir).Ended() {
			out = append(out, fmt.Sprintf("%s %s %d %d", path, info.Mode(), info.Size(), info.ModTime().UnixNano()))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A sidecar was stopped after etcd made the log of a new cluster, and before its first
// member was in it. Such a log never gets a leader, so the next start makes it again.
func TestCreate_logWithoutMember(t *testing.T) {
	t.Parallel()
	n := New(t, "").Node("a")
	n.Start()
	n.AwaitRunning()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	m := n.Marker()
	ofCluster, _ := keyspace.ParseMemberID(m.EtcdClusterID)
	ofMember, _ := keyspace.ParseMemberID(m.MemberID)
	metadata, err := proto.Marshal(&etcdserverpb.Metadata{ClusterID: &ofCluster, NodeID: &ofMember})
	if err != nil {
		t.Fatal(err)
	}
	logs := filepath.Join(n.Dir, "etcd", "member", "wal")
	if err := errors.Join(os.RemoveAll(filepath.Join(n.Dir, "etcd")), os.MkdirAll(filepath.Dir(logs), 0o700)); err != nil {
		t.Fatal(err)
	}
	w, err := wal.Create(zap.NewNop(), logs, metadata)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir, err := datadir.Open(n.Dir)
	if err != nil {
		t.Fatal(err)
	}
	m.Phase = datadir.Begun
	if err := errors.Join(dir.WriteMarker(m), dir.Close()); err != nil {
		t.Fatal(err)
	}
	n.Start()
	n.AwaitRunning()
	wantOneMember(t, n)
}
