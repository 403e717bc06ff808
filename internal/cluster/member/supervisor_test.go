package member_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/test/smalldisk"
)

// A member starts, serves, and stops gracefully when the context of its supervisor
// ends.
func TestSupervisor(t *testing.T) {
	r := newRig(t)
	n := r.node(t, "one")
	m := n.start(t)
	state := m.awaitReady(t)
	if state.PID == 0 || state.MemberID == 0 || state.ClusterID == 0 || !state.Running || state.LastExit != "" {
		t.Errorf("got %+v", state)
	}
	if err := put(t, client(t, n), "key"); err != nil {
		t.Error(err)
	}
	if err := m.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := m.State().Get(); got.Running || got.Ready || got.PID != 0 || got.LastExit != "exit status 0" || got.Restarts != 0 {
		t.Errorf("got %+v", got)
	}
}

// The parent gets the measurements of etcd from the child process: they contain each write.
func TestSupervisor_measures(t *testing.T) {
	n := newRig(t).node(t, "one")
	n.spec.Measures = 20 * time.Millisecond
	m := n.start(t)
	m.awaitReady(t)
	measured := m.measures.Get
	// etcd counts its leader a moment after it serves, and it writes to the disk before it has one.
	until(t, "the measures of a member that leads", func() bool { return measured().Fsync.Count > 0 && measured().LeaderChanges > 0 })
	before := measured()
	if last := len(before.Fsync.Buckets) - 1; before.LeaderChanges != 1 || last < 9 || before.Fsync.Buckets[last].UpTo < 1 {
		t.Errorf("got %+v, want one leader, and buckets up to seconds", before)
	}
	const writes = 10
	c := client(t, n)
	for range writes {
		if err := put(t, c, "key"); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the writes", func() bool {
		now := measured()
		return now.Fsync.Count >= before.Fsync.Count+writes && now.Fsync.Sum > before.Fsync.Sum && now.Commit.Count > before.Commit.Count
	})
}

// A member that is alone does not wait for the heartbeat after which it would elect itself,
// not after a restart either.
func TestSupervisor_alone(t *testing.T) {
	n := newRig(t).node(t, "one")
	n.spec.Heartbeat, n.spec.Election = 10*time.Second, 50*time.Second // etcd allows no longer ones
	for range 2 {
		heartbeat := time.After(n.spec.Heartbeat)
		m := n.start(t)
		for now, changed := m.State().Load(); !now.Ready; now, changed = m.State().Load() {
			select {
			case <-changed:
			case <-heartbeat:
				t.Fatal("it waited for a heartbeat")
			}
		}
		_ = m.stop()
	}
}

// wantRestart awaits the process that follows one whose reason of its end contains want, and
// fails the test unless the member is ready again with its data.
func wantRestart(t *testing.T, m *process, before member.State, anyOf ...string) {
	t.Helper()
	end := m.await(t, "it ended", func(s member.State) bool { return s.LastExit != "" })
	if !slices.ContainsFunc(anyOf, func(want string) bool { return strings.Contains(end.LastExit, want) }) {
		t.Errorf("got the reason %q, want one with %q", end.LastExit, anyOf)
	}
	after := m.await(t, "it is ready again", func(s member.State) bool { return s.Ready && s.Restarts > before.Restarts })
	if after.PID == before.PID || after.MemberID != before.MemberID || after.ClusterID != before.ClusterID || after.LastExit == "" {
		t.Errorf("before %+v, after %+v", before, after)
	}
	resp, err := client(t, m.node).Get(t.Context(), "key")
	if err != nil || len(resp.Kvs) != 1 {
		t.Errorf("the key that was written before: %v, %v", resp, err)
	}
}

// readyWithKey starts a member and writes a key.
func readyWithKey(t *testing.T, n *node) (*process, member.State) {
	t.Helper()
	m := n.start(t)
	state := m.awaitReady(t)
	if err := put(t, client(t, n), "key"); err != nil {
		t.Fatal(err)
	}
	return m, state
}

func TestSupervisor_killed(t *testing.T) {
	n := newRig(t).node(t, "one")
	m, before := readyWithKey(t, n)
	c := client(t, n)
	for range 200 { // enough that etcd drops some from its memory when it has read them from its log
		if err := put(t, c, "key"); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wantRestart(t, m, before, "signal: killed")
	if after := m.State().Get(); after.Restarts != before.Restarts+1 {
		t.Errorf("it restarted %d times: %s", after.Restarts-before.Restarts, after.LastExit)
	}
}

// Signals that a service manager sends to all processes of a service do not end the
// member: it must outlive the processes that need it.
func TestSupervisor_signals(t *testing.T) {
	n := newRig(t).node(t, "one")
	m, before := readyWithKey(t, n)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(before.PID, signal); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(t, client(t, n), "other"); err != nil {
		t.Error(err)
	}
	if got := m.State().Get(); got.PID != before.PID || !got.Ready {
		t.Errorf("got %+v", got)
	}
}

// The process may use no more memory than it does now. The Go runtime ends it.
func TestSupervisor_outOfMemory(t *testing.T) {
	n := newRig(t).node(t, "one")
	m, before := readyWithKey(t, n)
	if err := unix.Prlimit(before.PID, unix.RLIMIT_AS, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}, nil); err != nil {
		t.Fatal(err)
	}
	c := client(t, n)
	large := strings.Repeat("x", 1<<20)
	until(t, "the limit is met", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		// It fails when the process ends.
		_, _ = c.Put(ctx, "large", large)
		return m.State().Get().LastExit != ""
	})
	wantRestart(t, m, before, "memory", "exit status 66") // or the race detector gets no memory first
}

// etcd panics: a file is damaged. It is started again and again, until the file is
// repaired.
func TestSupervisor_panic(t *testing.T) {
	n := newRig(t).node(t, "one")
	m, before := readyWithKey(t, n)
	_ = m.stop()
	file := filepath.Join(n.spec.Dir, "member", "wal", "0000000000000000-0000000000000000.wal")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	m = n.start(t)
	end := m.await(t, "it was started twice again", func(s member.State) bool { return s.Restarts >= 2 && s.LastExit != "" })
	if why, is := strings.CutPrefix(end.LastExit, "exit status 2: "); !is || why == "" {
		t.Errorf("got %q", end.LastExit)
	}
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	after := m.awaitReady(t)
	if after.MemberID != before.MemberID {
		t.Errorf("got %+v, before %+v", after, before)
	}
}

// The disk is full: etcd's Fatal ends the process. It is started again until there is
// room, and keeps all that it acknowledged.
func TestSupervisor_fullDisk(t *testing.T) {
	if !smalldisk.Enter(t) {
		return
	}
	n := newRig(t).node(t, "one")
	small := smalldisk.Mount(t, 200<<20) // etcd's log takes 128 MiB of it at once
	n.spec.Dir = filepath.Join(small, "etcd")
	m, before := readyWithKey(t, n)
	filler := smalldisk.Fill(t, small)
	c := client(t, n)
	until(t, "the disk is full", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		// It fails when the process ends.
		_, _ = c.Put(ctx, "large", strings.Repeat("x", 1<<20))
		return m.State().Get().LastExit != ""
	})
	end := m.State().Get()
	if !strings.Contains(end.LastExit, "no space left on device") {
		t.Errorf("got %q", end.LastExit)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	wantRestart(t, m, before, "")
}

// A command that cannot be started, or ends at once, is tried again too.
func TestSupervisor_command(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		want    string
	}{
		"missing":      {[]string{"/nonexistent/sidecar", childCommand}, "no such file"},
		"ends at once": {[]string{"/bin/false"}, "exit status 1"},
		"empty":        {nil, "the command is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newRig(t).node(t, "one")
			n.command = c.command
			m := n.start(t)
			got := m.await(t, "it was tried again", func(s member.State) bool { return s.Restarts > 0 && !s.Running })
			if !strings.Contains(got.LastExit, c.want) {
				t.Errorf("got %q, want %q", got.LastExit, c.want)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if err := m.AwaitReady(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("AwaitReady: got %v", err)
			}
		})
	}
}

// A member that never became part of a quorum stops gracefully too.
func TestSupervisor_withoutQuorum(t *testing.T) {
	r := newRig(t)
	n, other := r.node(t, "one"), r.node(t, "two")
	n.spec.InitialCluster += "," + other.spec.InitialCluster
	m := n.start(t)
	m.await(t, "the server runs", func(s member.State) bool { return s.MemberID != 0 })
	if err := m.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := m.State().Get(); got.Ready || got.LastExit != "exit status 0" {
		t.Errorf("got %+v", got)
	}
}

// A configuration that etcd rejects is the reason that is shown.
func TestSupervisor_rejected(t *testing.T) {
	n := newRig(t).node(t, "one")
	n.spec.InitialCluster = "another=" + n.spec.PeerURL
	m := n.start(t)
	got := m.await(t, "it ended", func(s member.State) bool { return s.LastExit != "" })
	if !strings.Contains(got.LastExit, "start etcd") || !strings.Contains(got.LastExit, "one") {
		t.Errorf("got %q", got.LastExit)
	}
	n.spec.Token = ""
	if err := n.start(t).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Token is required") {
		t.Errorf("got %v", err)
	}
}

// A member that the cluster removed ends for good, whether it runs then or not.
func TestSupervisor_removed(t *testing.T) {
	r := newRig(t)
	first := r.node(t, "one")
	first.start(t).awaitReady(t)
	c := client(t, first)
	join := func(t *testing.T, name string) (*node, *process, uint64) {
		t.Helper()
		n := r.node(t, name)
		var added *clientv3.MemberAddResponse
		until(t, "the member is added", func() bool {
			var err error
			added, err = c.MemberAddAsLearner(t.Context(), []string{n.spec.PeerURL})
			return err == nil
		})
		n.spec.InitialCluster += "," + first.spec.InitialCluster
		n.spec.Existing, n.spec.Token = true, first.spec.Token
		m := n.start(t)
		if got := m.awaitReady(t); got.MemberID != added.Member.ID {
			t.Errorf("got the ID %x, want %x", got.MemberID, added.Member.ID)
		}
		return n, m, added.Member.ID
	}
	wantRemoved := func(t *testing.T, m *process) {
		t.Helper()
		select {
		case <-m.done:
		case <-time.After(limit):
			t.Fatalf("it runs; state %+v", m.State().Get())
		}
		if got := m.State().Get(); !errors.Is(m.err, member.ErrRemoved) || got.Restarts != 0 || got.Running {
			t.Errorf("got %v, %+v", m.err, got)
		}
	}
	t.Run("while it runs, and started again", func(t *testing.T) {
		n, m, id := join(t, "two")
		if _, err := c.MemberRemove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		wantRemoved(t, m)
		wantRemoved(t, n.start(t))
	})
	t.Run("while it is stopped", func(t *testing.T) {
		n, m, id := join(t, "three")
		_ = m.stop()
		if _, err := c.MemberRemove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		wantRemoved(t, n.start(t))
	})
}

// A process that wants to be started again is no fault, and the next one is more patient.
// Before each start, Prepare is called.
func TestSupervisor_again(t *testing.T) {
	n := newRig(t).node(t, "one")
	specs := filepath.Join(n.dir, "specs")
	n.command = []string{"/bin/sh", "-c", `read -r spec
echo "$spec" >> ` + specs + `
if [ $(wc -l < ` + specs + `) -lt 3 ]; then
	echo '{"event":"again","memberID":"1","clusterID":"2","problem":"lost"}'
	exit 5
fi
echo '{"event":"ready","memberID":"1","clusterID":"2"}'
read -r end`}
	n.spec.Patience = 3 * time.Second
	prepared := 0
	n.prepare = func() error { prepared++; return nil }
	m := n.start(t)
	if got := m.awaitReady(t); got.LastExit != "" || got.Restarts != 0 {
		t.Errorf("got %+v", got)
	}
	_ = m.stop()
	text, err := os.ReadFile(specs)
	if err != nil {
		t.Fatal(err)
	}
	var patience []time.Duration
	for line := range strings.Lines(string(text)) {
		var spec member.Spec
		if err := json.Unmarshal([]byte(line), &spec); err != nil {
			t.Fatal(err)
		}
		patience = append(patience, spec.Patience)
	}
	if want := []time.Duration{3 * time.Second, 0, 0}; !slices.Equal(patience, want) || prepared != len(want) {
		t.Errorf("got the patience %v, prepared %d times, want %v", patience, prepared, want)
	}
}

// A start that cannot be prepared fails, and is tried again.
func TestSupervisor_notPrepared(t *testing.T) {
	n := newRig(t).node(t, "one")
	failures := 1
	n.prepare = func() error {
		failures--
		if failures >= 0 {
			return errors.New("the disk is full")
		}
		return nil
	}
	m := n.start(t)
	if got := m.awaitReady(t); got.LastExit != "the disk is full" || got.Restarts != 1 {
		t.Errorf("got %+v", got)
	}
}
