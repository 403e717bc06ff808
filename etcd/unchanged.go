package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// UntilUnchanged calls change again, after a pause, while it returns ErrChanged because a fact that it read changed
// before its write.
func UntilUnchanged(ctx context.Context, change func() error) error {
	pauses := backoff.Backoff{First: 10 * time.Millisecond, Max: time.Second, Jitter: backoff.Apart}
	for {
		err := change()
		if !errors.Is(err, ErrChanged) {
			return err
		}
		if !pauses.Sleep(ctx) {
			return ctx.Err()
		}
	}
}
