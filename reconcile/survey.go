package reconcile

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// Survey reads the mark. It writes nothing and needs no lease. Where the parent is
// missing or damaged, work.FallbackEntry replaces the mark. Without that, the
// stamps on the objects of the bundle replace it, as they are after quiet. An
// error means that something could not be read, so that the mark is neither
// present nor absent.
func (r *Reconciler) Survey(ctx context.Context, work protocol.Work, quiet time.Time) (protocol.Mark, error) {
	a := exec.ReadOnly(r.client, r.set, quiet)
	for {
		began := time.Now()
		mark, again, err := r.surveyOnce(ctx, a, work)
		if err == nil && again {
			again, err = a.AwaitQuiet(ctx, began)
		}
		if err != nil {
			return protocol.Mark{}, fmt.Errorf("survey: %w", err)
		}
		if !again {
			return mark, nil
		}
	}
}

// surveyOnce reads the parent. Only where there is neither a mark nor a status does it list
// objects: a user who may write an object must not steer the leader
// (docs/protocol.md#content-epoch). provisional: the mark is made from stamps that were read
// before all requests of former leaders ended.
func (r *Reconciler) surveyOnce(ctx context.Context, a exec.API, work protocol.Work) (m protocol.Mark, provisional bool, err error) {
	p, err := a.ReadParent(ctx)
	if err != nil {
		return protocol.Mark{}, false, err
	}
	defer func() { m.Store = p.Store }()
	if p.Known || work.FallbackEntry != (protocol.Content{}) {
		return p.Effective(nil, work).Mark(0), false, nil
	}
	objects, err := r.wanted(r.cfg.Bundle.Get())
	if err != nil {
		return protocol.Mark{}, false, err
	}
	v, err := r.gatherer(a, plan.MembersOf(objects, nil)).Gather(ctx, plan.KindsOf(objects), nil, kube.Metadata)
	if err != nil {
		return protocol.Mark{}, false, err
	}
	if err := unreadable(v); err != nil {
		return protocol.Mark{}, false, err
	}
	stamps := v.StampsFor(p, objects)
	if len(stamps) == 0 {
		// An epoch without the rest of its stamp shows that a leader was there.
		return protocol.Mark{Kind: protocol.MarkAbsent, HighestEpoch: v.HighestEpoch(objects)}, false, nil
	}
	return p.Effective(stamps, work).Mark(v.HighestEpoch(objects)), true, nil
}

// unreadable returns why kinds cannot be read; nil: all were. It names all of them, so that
// people give the missing rights in one go.
func unreadable(v plan.Observation) error {
	var first error
	var kinds []string
	for _, gvk := range v.SortedKinds() {
		err := v[gvk].Err
		if err == nil {
			continue
		}
		if first == nil {
			first = err
		}
		kinds = append(kinds, gvk.Kind)
	}
	switch len(kinds) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s: %w", kinds[0], first)
	}
	return fmt.Errorf("%d kinds (%s), of which the first: %w", len(kinds), strings.Join(kinds, ", "), first)
}
