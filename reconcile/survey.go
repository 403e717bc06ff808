package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// Survey reads the mark, and the highest content epoch of any object of the set.
// It writes nothing and needs no lease. Where the parent is missing or damaged,
// work.FallbackEntry replaces the mark. Without that, the stamps on the objects
// replace it, as they are after quiet. An error means that something could not be
// read, so that the mark is neither present nor absent.
func (r *Reconciler) Survey(ctx context.Context, work protocol.Work, quiet time.Time) (protocol.Mark, error) {
	a := exec.ReadOnly(r.client, quiet)
	for {
		began := time.Now()
		p, v, err := r.surveyOnce(ctx, a)
		if err != nil {
			return protocol.Mark{}, fmt.Errorf("survey: %w", err)
		}
		stamps := v.StampsFor(p)
		mark := surveyed(p, stamps, v.HighestEpoch(), work)
		if !p.NeedsStamps(stamps, work) {
			return mark, nil
		}
		if again, err := a.AwaitQuiet(ctx, began); err != nil || !again {
			return mark, err
		}
	}
}

// surveyOnce reads the parent and the metadata of all objects.
func (r *Reconciler) surveyOnce(ctx context.Context, a exec.API) (applyset.Parent, plan.Observation, error) {
	p, err := a.ReadParent(ctx, r.set)
	if err != nil {
		return applyset.Parent{}, plan.Observation{}, err
	}
	objects, err := r.wanted(r.cfg.Bundle.Get())
	if err != nil {
		return applyset.Parent{}, plan.Observation{}, err
	}
	d := exec.Metadata
	if p.Known {
		// The mark has all contents. If an object has a higher epoch by now, the
		// next write of it shows that, or the last list of the next pass.
		d = exec.Recent
	}
	v, err := r.gatherer(a).Search(ctx, p, objects, d)
	if err != nil {
		return applyset.Parent{}, plan.Observation{}, err
	}
	for _, gvk := range v.SortedKinds() {
		if err := v.Kinds[gvk].Err; err != nil {
			return applyset.Parent{}, plan.Observation{}, fmt.Errorf("%s: %w", gvk.Kind, err)
		}
	}
	return p, v, nil
}

// surveyed returns the mark that the parent, the status and the stamps make up.
func surveyed(p applyset.Parent, stamps []applyset.Stamp, highest int64, work protocol.Work) protocol.Mark {
	mark := p.Effective(stamps, work)
	if !p.Known && len(mark.Entries) == 0 {
		// Neither a mark nor an object with a complete stamp. An epoch without the rest
		// of its stamp still counts, so that no leader is locked out.
		return protocol.Mark{Kind: protocol.MarkAbsent, HighestEpoch: highest}
	}
	return mark.Mark(highest)
}
