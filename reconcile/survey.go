package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// Survey reads the mark, and the highest content epoch of any object of the
// set. It writes nothing and needs no lease. Where the parent is gone or
// damaged, work.FallbackEntry serves for it, and where there is none the stamps on the
// objects, as they are once quiet has come. An error means that the mark is
// neither there nor absent: something that it needs could not be read.
func (r *Reconciler) Survey(ctx context.Context, work protocol.Work, quiet time.Time) (protocol.Mark, error) {
	a := api{client: r.client, lease: endless, quiet: quiet, unsure: new(doubt)}
	for {
		looked := time.Now()
		p, f, err := r.surveyOnce(ctx, a)
		if err != nil {
			return protocol.Mark{}, fmt.Errorf("survey: %w", err)
		}
		stamps := f.stampsFor(p)
		mark := judgeMark(p, stamps, highestEpoch(f.live), work)
		if !needsStamps(p, stamps, work) {
			return mark, nil
		}
		if again, err := a.awaitQuiet(ctx, looked); err != nil || !again {
			return mark, err
		}
	}
}

// surveyOnce reads the parent and the metadata of all objects.
func (r *Reconciler) surveyOnce(ctx context.Context, a api) (applyset.Parent, found, error) {
	p, err := a.readParent(ctx, r.set)
	if err != nil {
		return applyset.Parent{}, found{}, err
	}
	objects, err := r.wanted(r.cfg.Bundle.Get())
	if err != nil {
		return applyset.Parent{}, found{}, err
	}
	d := metadata
	if p.Known {
		// The mark has all contents. If an object bears a higher epoch yet, the
		// write of it shows that, or the last list of the pass that follows.
		d = recent
	}
	f, err := r.gatherer(a).search(ctx, p, objects, d)
	if err != nil {
		return applyset.Parent{}, found{}, err
	}
	for _, gvk := range sortedKinds(f.kinds) {
		if err := f.kinds[gvk].err; err != nil {
			return applyset.Parent{}, found{}, fmt.Errorf("%s: %w", gvk.Kind, err)
		}
	}
	return p, f, nil
}

// needsStamps reports whether nothing but the stamps on the objects tells what
// is there.
func needsStamps(p applyset.Parent, stamps []applyset.Stamp, work protocol.Work) bool {
	return !p.Known && work.FallbackEntry == (protocol.Content{}) && len(stamps) > 0
}

// stampsFor returns the stamps on the objects where the parent has no mark that
// can be decoded. Otherwise the mark has all contents, and nil is enough.
func (f found) stampsFor(p applyset.Parent) []applyset.Stamp {
	if p.Known {
		return nil
	}
	return stampsOf(f.live)
}

// judgeMark is what the parent, the status and the stamps come to.
func judgeMark(p applyset.Parent, stamps []applyset.Stamp, highest int64, work protocol.Work) protocol.Mark {
	if p.Known {
		return p.Mark.Mark(highest)
	}
	anew := applyset.Rebuild(stamps, work)
	if len(anew.Entries) == 0 {
		// Neither a mark nor anything that ever bore one. An epoch without the
		// rest of its stamp still counts, so that nothing is locked out.
		return protocol.Mark{Kind: protocol.MarkAbsent, HighestEpoch: highest}
	}
	return anew.Mark(highest)
}

// endless is the lease of a survey: it only reads.
func endless() time.Time { return time.Now().Add(time.Hour) }
