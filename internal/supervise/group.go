package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/lockstep-dev/lockstep/event"
)

// Group is a few workers that end together. It starts one goroutine for each of them.
type Group struct {
	running sync.WaitGroup
	ctx     context.Context //nolint:containedctx // lives until End, as the workers do
	cancel  context.CancelFunc
	// broken ends when the first worker fails; its cause is why.
	broken context.Context //nolint:containedctx // as above
	fail   context.CancelCauseFunc
}

// NewGroup returns a group whose context does not end with ctx: End ends it. So several
// groups can end in order.
func NewGroup(ctx context.Context) *Group {
	ctx = context.WithoutCancel(ctx)
	g := &Group{}
	g.broken, g.fail = context.WithCancelCause(ctx)
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

// Complete is an error whose message needs no name of a worker.
type Complete interface{ Complete() }

// Start starts a worker. That its context ended is no error.
func (g *Group) Start(name string, run Worker) {
	g.running.Go(func() {
		err := run(g.ctx)
		if g.ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
			return
		}
		_, complete := errors.AsType[interface {
			error
			Complete
		}](err)
		switch {
		case err == nil:
			err = fmt.Errorf("%s: %w", name, errEnded)
		case !complete:
			err = fmt.Errorf("%s: %w", name, err)
		}
		g.fail(err)
	})
}

// Failed returns a channel that is closed once a worker fails.
func (g *Group) Failed() <-chan struct{} { return g.broken.Done() }

// Err returns why the first worker failed; nil: none did.
func (g *Group) Err() error { return context.Cause(g.broken) }

// End stops all workers, and waits until they end.
func (g *Group) End() {
	g.cancel()
	g.running.Wait()
}

// Wait returns when ctx ends, or a worker of one of the groups fails.
func Wait(ctx context.Context, groups ...*Group) {
	var failed []<-chan struct{}
	for _, g := range groups {
		failed = append(failed, g.Failed())
	}
	event.Wait(ctx, failed...)
}

// Err returns why workers of the groups failed; nil: none did.
func Err(groups ...*Group) error {
	var errs []error
	for _, g := range groups {
		errs = append(errs, g.Err())
	}
	return errors.Join(errs...)
}
