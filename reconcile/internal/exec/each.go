package exec

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// Each calls do for 0 to n-1, at most concurrency calls at once. It returns the
// first error, which ends the others.
func Each(ctx context.Context, concurrency, n int, do func(context.Context, int) error) error {
	group, limited := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for i := range n {
		group.Go(func() error {
			if limited.Err() != nil {
				return context.Cause(limited)
			}
			return do(limited, i)
		})
	}
	return group.Wait()
}
