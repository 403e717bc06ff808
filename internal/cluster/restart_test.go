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
