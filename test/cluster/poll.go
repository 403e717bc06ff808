package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"
)

const (
	pollInterval = 20 * time.Millisecond
	patience     = 60 * time.Second // of Await
)

// Poll calls cond until it returns nil, or until ctx ends: then it returns what
// cond said last.
func Poll(ctx context.Context, cond func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			// A cond that ctx cut short has less to say than the one before.
			if last == nil {
				last = err
			}
			return fmt.Errorf("%w (%w)", last, context.Cause(ctx))
		}
		last = err
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// Await polls cond and ends the test where it does not come true within a
// minute. what completes the sentence "waited for ...".
func Await(t testing.TB, what string, cond func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begin := time.Now()
	if err := Poll(ctx, cond); err != nil {
		t.Fatalf("waited %s for %s: %v", time.Since(begin).Round(time.Second), what, err)
	}
}
