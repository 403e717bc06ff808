package exec

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// ReadParent reads the parent of the set. The zero Parent: there is none. If the
// parent cannot be read, that is an error.
func (a API) ReadParent(ctx context.Context) (applyset.Parent, error) {
	obj, err := a.Get(ctx, applyset.ParentResource(), a.Set.ParentKey())
	if err != nil || obj == nil {
		return applyset.Parent{}, markError("read the mark", err)
	}
	return applyset.DecodeParent(obj), nil
}

// WriteParent writes want over p, with uid and resourceVersion as preconditions.
// Where there is none, it creates the parent first. If the outcome is unknown, it reads the parent
// and writes again only if that still is p. It returns the parent as it is then.
// ErrMarkChanged: another leader wrote it.
func (a API) WriteParent(ctx context.Context, p applyset.Parent, want *kube.Object) (applyset.Parent, error) {
	now := p
	write := Attempts{
		Try: func(ctx context.Context) error {
			if now.Equals(want) {
				return nil // an attempt whose answer was lost took effect
			}
			if !now.SameVersion(p) {
				return ErrMarkChanged
			}
			written, err := a.tryParent(ctx, p, want)
			if err == nil {
				now = applyset.DecodeParent(written)
			}
			return markError("write the mark", err)
		},
		Classify: func(_ context.Context, err error) Class {
			if p.Object != nil && apierrors.IsNotFound(err) { // otherwise the namespace is missing
				return Conflict
			}
			return Classify(err)
		},
		Reread: func(ctx context.Context) error {
			found, err := a.ReadParent(ctx)
			if err == nil {
				now = found
			}
			return err
		},
	}
	return now, conclude(write.Run(ctx))
}

// tryParent writes the parent. A POST carries no precondition, and may land late, after the
// parent was deleted again. So the parent is created without a mark, and an update with uid and
// resourceVersion adds it (docs/protocol-objects.md#mark).
func (a API) tryParent(ctx context.Context, p applyset.Parent, want *kube.Object) (*kube.Object, error) {
	if p.Object == nil {
		created, err := a.send(ctx, a.Client.Create, applyset.ParentResource(), applyset.WithoutMark(want))
		if err != nil {
			return nil, err
		}
		want = want.DeepCopy()
		want.SetUID(created.GetUID())
		want.SetResourceVersion(created.GetResourceVersion())
	}
	return a.send(ctx, a.Client.Update, applyset.ParentResource(), want)
}
