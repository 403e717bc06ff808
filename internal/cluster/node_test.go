package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// Steps are taken one at a time. When the node is to end, the one that is being taken ends, and no
// other begins.
func TestNode_steps(t *testing.T) {
	until := make(chan struct{})
	n := &node{parts: parts{process: process{resident: &resident{}}}, change: &change{}, until: until}
	began, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- n.step(t.Context(), func(ctx context.Context, _ *change) error {
			close(began)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	<-began
	if n.mu.TryLock() {
		t.Error("another step could begin")
		n.mu.Unlock()
	}
	close(until)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	n.end()
	if err := n.step(t.Context(), func(context.Context, *change) error { return nil }); !errors.Is(err, ErrNotRunning) {
		t.Errorf("after the end: got %v", err)
	}
}

// A member that the cluster removed ends the node, but not while a step removes it, nor after it was
// started again.
func TestNode_endedRun(t *testing.T) {
	run := &memberRun{err: member.ErrRemoved}
	for name, tc := range map[string]struct {
		phase datadir.Phase
		again bool
		ends  bool
	}{
		"a working member":         {datadir.Member, false, true},
		"it was started again":     {datadir.Member, true, false},
		"its own node removes it":  {datadir.Leaving, false, false},
		"it is not a member again": {datadir.Adding, false, false},
	} {
		d := newBrittleDisk()
		r := &resident{dir: &datadir.Dir{Layout: "/data"}, disk: d, run: event.New(run), marker: datadir.Marker{Phase: tc.phase}, adopted: func(datadir.Marker) {}}
		if tc.again {
			r.run.Set(&memberRun{})
		}
		n := &node{parts: parts{process: process{resident: r}}}
		if err := n.endedRun(run); (err != nil) != tc.ends || (d.marker.Phase == datadir.Removed) != tc.ends {
			t.Errorf("%s: got %v, and the marker is %+v", name, err, d.marker)
		}
	}
}

// The CA is not replaced on a node that becomes a member or leaves: its process has no certificate to
// read again, or is about to end.
func TestRotating_notSettled(t *testing.T) {
	f := newFlow(t, func(string) {})
	create(t, f)
	n := newNode(f.parts, event.New[[]Observed](nil), func(string) {}, t.Context().Done())
	r := rotating{node: n}
	before := f.current()
	for phase, want := range map[datadir.Phase]error{datadir.Adding: errNotSettled, datadir.Leaving: errNotSettled, datadir.WithoutMember: nil} {
		f.marker.Phase = phase
		if err := r.Restart(t.Context()); !errors.Is(err, want) || f.current() != before {
			t.Errorf("%s: got %v", phase, err)
		}
	}
	f.marker.Phase = datadir.Member
	awaited := ""
	r.awaitServices = func(_ context.Context, trust string) error { awaited = trust; return nil }
	if err := r.Restart(t.Context()); err != nil || f.current() == before || awaited == "" || awaited != f.shared.value.Get().Trust {
		t.Errorf("got %v, services with %q", err, awaited)
	}
}

// A voter that is alone asks no member for the key of the CA, and certainly not itself.
func TestSigners_alone(t *testing.T) {
	f := newFlow(t, func(string) {})
	create(t, f)
	asked := 0
	ask := func(string) (bool, error) { asked++; return true, nil }
	if err := f.signers.each(t.Context(), ask); !errors.Is(err, errNoSigner) || asked != 0 {
		t.Errorf("got %v, asked %d", err, asked)
	}
	f.signers.node = "b"
	if err := f.signers.each(t.Context(), ask); err != nil || asked != 1 {
		t.Errorf("another node: got %v, asked %d", err, asked)
	}
	f.signers.node = "a"
}

// Before the ID of its member is in the marker, a node finds the member that an earlier attempt added,
// and can also leave as that.
func TestOutside_withoutID(t *testing.T) {
	f := newFlow(t, func(string) {})
	create(t, f)
	o := realOutside{&f.parts}
	if got, err := o.listed(t.Context(), ""); err != nil || got.listed != membership.ListedVoter {
		t.Errorf("got %v, %v", got, err)
	}
	f.cfg.Node, f.cfg.Address, f.cfg.PeerPort, f.cfg.ClientPort = "b", "127.0.0.2", 1, 2
	if got, err := o.listed(t.Context(), ""); err != nil || got.listed != membership.NotListed {
		t.Errorf("another node: got %v, %v", got, err)
	}
}
