package reconcile

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// readParent reads the parent. That it is absent is an answer; that it cannot
// be read is an error.
func (a api) readParent(ctx context.Context, s applyset.Set) (applyset.Parent, error) {
	obj, err := a.get(ctx, applyset.ParentResource(), s.ParentKey())
	if err != nil || obj == nil {
		return applyset.Parent{}, markError("read the mark", err)
	}
	return applyset.DecodeParent(obj), nil
}

func markError(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return &ForbiddenError{Err: fmt.Errorf("%s: %w", doing, err)}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// errMarkChanged says that somebody else wrote the mark meanwhile.
var errMarkChanged = errors.New("somebody else wrote the mark meanwhile")

// writeParent writes want over p: by POST where there was none, else with uid and
// resourceVersion as preconditions. Where the outcome is unknown, it looks, and
// tries again only if p still is what is there.
func (a api) writeParent(ctx context.Context, p applyset.Parent, s applyset.Set, want *kube.Object) (applyset.Parent, error) {
	for attempt := 1; ; attempt++ {
		written, err := a.tryParent(ctx, p, want)
		if err == nil {
			return applyset.DecodeParent(written), nil
		}
		missing := p.Object != nil && apierrors.IsNotFound(err) // else it is the namespace that is missing
		next := judge(err)
		if next != wait && next != again && !missing || attempt == maxAttempts {
			return p, markError("write the mark", conclude(err))
		}
		if next == wait {
			if err := pause(ctx, attempt, err); err != nil {
				return p, err
			}
		}
		now, err := a.readParent(ctx, s)
		switch {
		case err != nil:
			return p, err
		case now.Equals(want):
			return now, nil
		case !now.SameVersion(p):
			return now, errMarkChanged
		}
	}
}

func (a api) tryParent(ctx context.Context, p applyset.Parent, want *kube.Object) (written *kube.Object, err error) {
	err = a.write(ctx, func(ctx context.Context) (err error) {
		if p.Object == nil {
			written, err = a.client.Create(ctx, applyset.ParentResource(), want)
		} else {
			written, err = a.client.Update(ctx, applyset.ParentResource(), want)
		}
		return err
	})
	return written, err
}
