package exec

import (
	"context"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
)

// Forged is a stamp that no leader wrote, and that was repaired. The zero Forged:
// there was none.
type Forged struct {
	Epoch   int64
	Manager string // the field manager that wrote it; empty: unknown
}

// checkStamp decides whose a stamp with a content epoch above own is. Leaders write the mark
// before the first object. So a mark that is read after the object names the content of every
// leader that can have written it. checkStamp returns a NewerContentError where the mark
// contains content above own, and nil where no leader wrote the stamp
// (docs/protocol-objects.md#stale-writes).
func (a API) checkStamp(ctx context.Context, k applyset.Key, own int64) error {
	p, err := a.ReadParent(ctx)
	if err != nil {
		return err
	}
	if !p.Known {
		return errMarkLost
	}
	if highest := p.Mark.HighestEpoch(); highest > own {
		return &NewerContentError{Key: k, Epoch: highest}
	}
	return nil
}

// removeForgedStamp removes a stamp with a content epoch above this leader's, if no leader
// wrote it. The epoch policy lets every other field manager do that, and forbids to lower the
// epoch. Where it is refused, the object is recreated, if it may be.
func (a *applier) removeForgedStamp(ctx context.Context) error {
	epoch, newer := applyset.NewerEpoch(a.Live, a.content.Epoch)
	if !newer {
		return nil
	}
	if err := a.checkStamp(ctx, a.Wanted.Key, a.content.Epoch); err != nil {
		return err
	}
	a.forged = Forged{Epoch: epoch, Manager: ownership.AnnotatedBy(a.Live, bundle.AnnotationContentEpoch)}
	var live *kube.Object
	err := a.write(ctx, func(ctx context.Context) (err error) {
		live, err = a.Client.RemoveAnnotations(ctx, a.Resource, a.Live, bundle.StampAnnotations())
		return err
	})
	switch {
	case err == nil:
		a.Live = live
	case Classify(err) == Rejected && Recreates(a.Wanted, err):
		a.recreate = true
	default:
		return err
	}
	return nil
}
