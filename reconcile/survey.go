package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Survey reads the mark, and the highest content epoch of any object of the
// set. It writes nothing and needs no lease. Where the parent is gone or
// damaged, the stamps on the objects serve for it. An error means that the mark
// is neither there nor absent: something that it needs could not be read.
func (r *Reconciler) Survey(ctx context.Context) (protocol.Mark, error) {
	a := api{client: r.client, lease: endless}
	p, err := a.readParent(ctx, r.set)
	if err != nil {
		return protocol.Mark{}, fmt.Errorf("survey: %w", err)
	}
	objects, err := r.wanted(r.cfg.Bundle.Get())
	if err != nil {
		return protocol.Mark{}, fmt.Errorf("survey: %w", err)
	}
	f, err := r.gatherer(a).gather(ctx, kindsOf(objects), p.kinds, metadata)
	if err != nil {
		return protocol.Mark{}, fmt.Errorf("survey: %w", err)
	}
	for _, gvk := range sortedKinds(f.kinds) {
		if err := f.kinds[gvk].err; err != nil {
			return protocol.Mark{}, fmt.Errorf("survey %s: %w", gvk.Kind, err)
		}
	}
	return judgeMark(p, f), nil
}

// judgeMark is what the parent and the stamps come to.
func judgeMark(p parent, f found) protocol.Mark {
	highest := highestEpoch(f.live)
	if p.known {
		return p.record.mark(highest)
	}
	stamps := stampsOf(f.live)
	if len(stamps) == 0 {
		// Neither a mark nor anything that ever bore one. An epoch without the
		// rest of its stamp still counts, so that nothing is locked out.
		return protocol.Mark{Kind: protocol.MarkAbsent, HighestEpoch: highest}
	}
	return fromStamps(stamps).mark(highest)
}

// endless is the lease of a survey: it only reads.
func endless() time.Time { return time.Now().Add(time.Hour) }
