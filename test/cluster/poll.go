package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"
)

const (
	pollInterval = 50 * time.Millisecond
	pollPause    = time.Second // the longest between two questions
	// Who waits long asks less often: after a fifth of the time, and at least five times a second, so that
	// what lasts a moment is seen. A question costs a millisecond of a processor, and most waits last for some seconds.
	pollShare  = 5
	pollSeldom = 200 * time.Millisecond
	// pollRest is how many times longer than a question the pause after it is, at least. A question
	// that is a command, or that a busy machine answers late, would take a whole processor otherwise.
	pollRest = 4
	patience = 3 * time.Minute // of Await; on a machine that does much else, a voter takes more than one
)

// Poll calls cond until it returns nil. When ctx ends, it returns cond's last error.
func Poll(ctx context.Context, cond func(context.Context) error) error {
	var last error
	first := time.Now()
	for {
		began := time.Now()
		err := cond(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			// An error that the end of ctx caused is less useful than the one before.
			if last == nil {
				last = err
			}
			return fmt.Errorf("%w (%w)", last, context.Cause(ctx))
		}
		last = err
		select {
		case <-time.After(min(max(pollInterval, min(began.Sub(first)/pollShare, pollSeldom), pollRest*time.Since(began)), pollPause)):
		case <-ctx.Done():
		}
	}
}

// Await polls cond, and fails the test if it does not succeed in time. what
// completes the sentence "waited for ...".
func Await(t testing.TB, what string, cond func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begin := time.Now()
	if err := Poll(ctx, cond); err != nil {
		t.Fatalf("waited %s for %s: %v", time.Since(begin).Round(time.Second), what, err)
	}
}
