package reconcile

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// remover deletes one object that the bundle dropped.
type remover struct {
	api
	removal
	content protocol.Content
}

// run returns why the object is still there, or an error that ends the pass.
func (r *remover) run(ctx context.Context) (failure string, err error) {
	for attempt := 1; ; attempt++ {
		err := r.turn(ctx)
		if err == nil {
			return "", nil
		}
		next := judge(err)
		if next == refused || next == immutable || attempt == maxAttempts {
			err = conclude(err)
			if endsPass(err) {
				return "", err
			}
			return describe(r.key, err), nil
		}
		if next == fatal {
			return "", err
		}
		if next == wait {
			if err := pause(ctx, attempt, err); err != nil {
				return "", err
			}
		}
		if err := r.reread(ctx); err != nil {
			return "", err
		}
	}
}

// turn deletes the object if it still is ours to delete.
func (r *remover) turn(ctx context.Context) error {
	if r.live == nil || !isMember(r.live) || !mayPrune(r.key.GroupKind, r.live) {
		return nil
	}
	if epoch, newer := applyset.NewerEpoch(r.live.GetAnnotations(), r.content.Epoch); newer {
		return &newerContentError{key: r.key, epoch: epoch}
	}
	err := r.write(ctx, func(ctx context.Context) error { return r.client.Delete(ctx, r.resource, r.live) })
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (r *remover) reread(ctx context.Context) error {
	live, err := r.get(ctx, r.resource, r.key)
	if err == nil {
		r.live = live
	}
	return err
}
