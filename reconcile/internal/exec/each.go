package exec

import (
	"context"
	"sync"
)

// Each calls do for 0 to n-1, at most concurrency calls at once. It returns the
// first error, which ends the others.
func Each(ctx context.Context, concurrency, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int, n) // all of them, so that no sender is needed
	for i := range n {
		next <- i
	}
	close(next)
	var workers sync.WaitGroup
	for range min(concurrency, n) {
		workers.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}
