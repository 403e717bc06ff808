package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// UntilUnchanged repeats a change while it returns ErrChanged: until the facts that it read still held when it was
// written.
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
