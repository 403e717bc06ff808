package exec

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// Remove deletes one object that the bundle dropped. It returns why the object
// still exists, or an error that ends the pass.
func (a API) Remove(ctx context.Context, r plan.Removal, content protocol.Content) (failure string, err error) {
	one := remover{API: a, Removal: r, content: content}
	err = conclude(Attempts{Try: one.attempt, Reread: one.reread}.Run(ctx))
	if err == nil || EndsPass(err) {
		return "", err
	}
	return Describe(r.Key, err), nil
}

type remover struct {
	API
	plan.Removal
	content protocol.Content
}

// attempt deletes the object if it still is ours to delete.
func (r *remover) attempt(ctx context.Context) error {
	if r.Live == nil || !plan.IsMember(r.Live) || !plan.MayPrune(r.Key.GroupKind, r.Live) {
		return nil
	}
	if _, newer := applyset.NewerEpoch(r.Live, r.content.Epoch); newer {
		if err := r.checkStamp(ctx, r.Key, r.content.Epoch); err != nil {
			return err
		}
	}
	err := r.write(ctx, func(ctx context.Context) error { return r.Client.Delete(ctx, r.Resource, r.Live) })
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (r *remover) reread(ctx context.Context) error {
	live, err := r.Get(ctx, r.Resource, r.Key)
	if err == nil { // else it would look as if the object were removed
		r.Live = live
	}
	return err
}
