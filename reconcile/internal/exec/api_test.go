package exec

import (
	"errors"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// An object that cannot be read is not missing: the next attempt would create it, or take it as removed.
func TestReread_fails(t *testing.T) {
	over, live := API{Lease: func() time.Time { return time.Time{} }}, &kube.Object{}
	a, r := applier{API: over, Change: plan.Change{Live: live}}, remover{API: over, Removal: plan.Removal{Live: live}}
	if err := a.reread(t.Context()); !errors.Is(err, ErrLeaseOver) || a.Live != live {
		t.Errorf("apply: got %v, %v", a.Live, err)
	}
	if err := r.reread(t.Context()); !errors.Is(err, ErrLeaseOver) || r.Live != live {
		t.Errorf("remove: got %v, %v", r.Live, err)
	}
}

// Requests are given up concurrently: the newest counts, not the last one noted.
func TestLastUnknown(t *testing.T) {
	var u LastUnknown
	if got := u.Time(); !got.IsZero() {
		t.Errorf("got %s, want none", got)
	}
	first := time.Now()
	second := first.Add(time.Second)
	for _, at := range []time.Time{second, first} {
		u.note(at)
		if got := u.Time(); got != second {
			t.Errorf("got %s, want %s", got, second)
		}
	}
}
