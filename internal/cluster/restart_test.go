package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
)

// A directory that another process uses is waited for, as long as a member may take to stop.
func TestAwaitLock(t *testing.T) {
	f, locked := &flow{}, &datadir.LockedError{}
	if _, again := errors.AsType[transientError](f.awaitLock(locked)); !again || f.lockedSince.IsZero() {
		t.Error("at first: want that it is tried again")
	}
	f.lockedSince = time.Now().Add(-lockTimeout - time.Second)
	if err := f.awaitLock(locked); !errors.Is(err, locked) || errors.As(err, new(transientError)) {
		t.Errorf("after its time: got %v", err)
	}
}

// A node whose certificate has expired cannot reach any member that signs another one: people have to act.
func TestCheckExpired(t *testing.T) {
	f := newFlow(t, func(string) {})
	for _, s := range createSteps()[:4] {
		if err := s.run(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkExpired(f.dir); err != nil {
		t.Errorf("a new certificate: got %v", err)
	}
	writeCertificate(t, f.dir.PKI(), time.Now().Add(-time.Second))
	if err := checkExpired(f.dir); err == nil || !strings.Contains(err.Error(), "join with a new token") {
		t.Errorf("an expired one: got %v", err)
	}
}

// A directory whose restore was interrupted belongs to no cluster yet: nothing starts there before the restore
// is complete.
func TestOpenMemberDirectory_restoring(t *testing.T) {
	f := newFlow(t, func(string) {})
	dir, err := datadir.Open(f.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	m := datadir.Marker{
		Cluster: "c", Node: "a", Address: "127.0.0.1", PeerPort: f.cfg.PeerPort, ClientPort: f.cfg.ClientPort, JoinPort: f.cfg.JoinPort,
		Intent: datadir.Restore, Phase: datadir.Begun,
	}
	if err := errors.Join(dir.WriteMarker(m), dir.Close()); err != nil {
		t.Fatal(err)
	}
	_, name, steps := choose(f.cfg)
	err = f.carryOut(t.Context(), name, steps)
	if refused, is := errors.AsType[*datadir.RefusedError](err); !is || !strings.Contains(refused.Remedy, "type sidecar cluster restore again") {
		t.Errorf("got %v", err)
	}
	if f.current() != nil {
		t.Error("the member was started")
	}
}
