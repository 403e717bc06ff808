package election

import (
	"context"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// yield is what an election remembers of an API that is out of reach, from one
// leadership to the next (DESIGN 4.7).
type yield struct {
	after     time.Duration // how long a leader bears it
	withdrawn bool
	pause     time.Duration // before it campaigns again; grows with each withdrawal
}

const (
	minYieldPause = time.Second
	maxYieldPause = time.Minute
	// apiPollPause is the pause between two attempts to reach the API while
	// withdrawn.
	apiPollPause = time.Second
	surveyLimit  = 10 * time.Second
)

// withdraw is called when a leader gives up because of its API.
func (y *yield) withdraw() {
	y.withdrawn = true
	y.pause = min(max(2*y.pause, minYieldPause), maxYieldPause)
}

// worked is called when a pass was finished.
func (y *yield) worked() { y.pause = 0 }

// awaitAPI returns when the API has answered and the pause is over.
func (e *Election) awaitAPI(ctx context.Context) error {
	for {
		limited, cancel := context.WithTimeout(ctx, surveyLimit)
		_, err := e.cfg.Applier.Survey(limited, protocol.Work{}, time.Time{})
		cancel()
		if err == nil {
			break
		}
		e.cfg.Log.Debug("still withdrawn, the API does not answer", "err", err)
		if !pause(ctx, apiPollPause) {
			return ctx.Err()
		}
	}
	if !pause(ctx, e.yield.pause) {
		return ctx.Err()
	}
	e.yield.withdrawn = false
	return nil
}
