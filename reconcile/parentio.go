package reconcile

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// readParent reads the parent. That it is absent is an answer; that it cannot
// be read is an error.
func (a api) readParent(ctx context.Context, s set) (parent, error) {
	obj, err := a.get(ctx, parentResource(), s.parentKey())
	if err != nil || obj == nil {
		return parent{}, markError("read the mark", err)
	}
	return decodeParent(obj), nil
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
func (a api) writeParent(ctx context.Context, p parent, s set, want *kube.Object) (parent, error) {
	for attempt := 1; ; attempt++ {
		written, err := a.tryParent(ctx, p, want)
		if err == nil {
			return decodeParent(written), nil
		}
		missing := p.obj != nil && apierrors.IsNotFound(err) // else it is the namespace that is missing
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
		case now.obj != nil && now.known && sameMark(now, want) && sameSet(now.obj, want):
			return now, nil
		case !sameVersion(now, p):
			return now, errMarkChanged
		}
	}
}

func (a api) tryParent(ctx context.Context, p parent, want *kube.Object) (written *kube.Object, err error) {
	err = a.write(ctx, func(ctx context.Context) (err error) {
		if p.obj == nil {
			written, err = a.client.Create(ctx, parentResource(), want)
		} else {
			written, err = a.client.Update(ctx, parentResource(), want)
		}
		return err
	})
	return written, err
}
