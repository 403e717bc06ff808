package election

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// A job that does not end ends the leadership at once, whatever the step: what
// comes next may be long in coming, and the lease is kept alive meanwhile.
func TestLeadership_stuck(t *testing.T) {
	for _, kind := range []protocol.StepKind{protocol.StepHold, protocol.StepAwait, protocol.StepSurvey, protocol.StepReconcile, protocol.StepWrite} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New(Config{Log: slog.New(slog.DiscardHandler)}).newLeadership(nil, "", 0)
				l.clock.now = time.Now()
				l.job = &job{step: protocol.Step{Kind: protocol.StepReconcile}, cancel: func() {}, done: make(chan struct{})}
				step := protocol.Step{Kind: kind, Work: protocol.Work{LeaderEpoch: 2}}
				if got := l.execute(t.Context(), step); got != nextRound || !l.stuck {
					t.Errorf("got %d, stuck %t: it waits for a change", got, l.stuck)
				}
			})
		})
	}
}
