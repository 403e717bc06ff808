package election

import (
	"context"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
)

// yield is what an election remembers of an unreachable API from one leadership to
// the next (docs/protocol.md#yielding).
type yield struct {
	withdrawn bool
	pauses    backoff.Backoff // before it campaigns again; grows with each withdrawal
}

const (
	minYieldPause = time.Second
	maxYieldPause = time.Minute
	// apiPollPause is the pause between two attempts to reach the API while
	// withdrawn.
	apiPollPause  = time.Second
	surveyTimeout = 10 * time.Second
)

// withdraw is called when a leader resigns because its API is unreachable.
func (y *yield) withdraw() {
	y.withdrawn = true
	y.pauses.Next()
}

// passCompleted is called after a complete pass.
func (y *yield) passCompleted() { y.pauses.Reset() }

// awaitAPI returns when the API has answered and the pause is over.
func (e *Election) awaitAPI(ctx context.Context) error {
	for {
		limited, cancel := context.WithTimeout(ctx, surveyTimeout)
		_, err := e.cfg.Applier.Survey(limited, protocol.Work{}, time.Time{})
		cancel()
		if err == nil {
			break
		}
		e.cfg.Log.Debug("still withdrawn: the API does not answer", "err", err)
		if !backoff.Sleep(ctx, apiPollPause) {
			return ctx.Err()
		}
	}
	if !backoff.Sleep(ctx, e.yield.pauses.Pause()) {
		return ctx.Err()
	}
	e.yield.withdrawn = false
	return nil
}
