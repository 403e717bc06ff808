package member_test

import (
	"context"
	"errors"
	"testing"
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
	if err := put(t, client(t, r, n), "key"); err != nil {
		t.Error(err)
	}
	if err := m.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := m.State().Get(); got.Running || got.Ready || got.PID != 0 || got.LastExit != "exit status 0" || got.Restarts != 0 {
		t.Errorf("got %+v", got)
	}
}
