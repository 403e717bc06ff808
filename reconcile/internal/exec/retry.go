package exec

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// MaxAttempts bounds how often one thing is attempted within a pass. The leader
// repeats the pass, with a back-off of its own.
const MaxAttempts = 5

// Without a Retry-After, the pauses between attempts double from firstPause. None
// is longer than maxPause.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// impatientAttempts is how many conflicts are tried again at once. After that,
// another writer is likely to be busy with the same object.
const impatientAttempts = 2

// Attempts is one thing that is attempted until it succeeds, or until trying
// again does not help.
type Attempts struct {
	Try func(context.Context) error
	// Classify classifies an error of Try. Retryable pauses before the next attempt. Conflict
	// does not at first. Every other class ends the attempts. nil: the function Classify.
	Classify func(context.Context, error) Class
	// Reread reads the input of Try again, before the next attempt. nil: nothing.
	Reread func(context.Context) error
}

// Run returns nil after the first success. Otherwise it returns the error of the
// last attempt, of Reread, or of the end of ctx.
func (a Attempts) Run(ctx context.Context) error {
	pauses := NewBackoff()
	for n := 1; ; n++ {
		err := a.Try(ctx)
		if err == nil {
			return nil
		}
		class := Classify(err)
		if a.Classify != nil {
			class = a.Classify(ctx, err)
		}
		if n == MaxAttempts || class != Retryable && class != Conflict {
			return err
		}
		pause := withRetryAfter(pauses.Next(), err)
		if class == Conflict && n <= impatientAttempts {
			pause = 0
		}
		if err := Sleep(ctx, pause); err != nil {
			return err
		}
		if a.Reread == nil {
			continue
		}
		if err := a.Reread(ctx); err != nil {
			return err
		}
	}
}

// onlyRetryable is for requests that a conflict ends, such as reads.
func onlyRetryable(_ context.Context, err error) Class {
	if class := Classify(err); class == Retryable {
		return Retryable
	}
	return Fatal
}

// NewBackoff returns the pauses between attempts, with jitter so that concurrent
// workers do not return all at once.
func NewBackoff() backoff.Backoff {
	return backoff.Backoff{First: firstPause, Max: maxPause, Jitter: 0.5}
}

// withRetryAfter returns the pause that the API server asks for, if that is
// longer than d and at most maxPause.
func withRetryAfter(d time.Duration, err error) time.Duration {
	if seconds, suggested := apierrors.SuggestsClientDelay(err); suggested {
		d = max(d, time.Duration(seconds)*time.Second)
	}
	return min(d, maxPause)
}

// Pause waits for the next pause of b after err, or longer if the API server asks
// for that.
func Pause(ctx context.Context, b *backoff.Backoff, err error) error {
	return Sleep(ctx, withRetryAfter(b.Next(), err))
}

// Sleep waits for d. It returns the cause of ctx's end if ctx ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	if !backoff.Sleep(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}
