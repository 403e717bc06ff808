package election

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A job that does not end ends the leadership at once, for every kind of step: the
// next change may be hours away, and the session keeps the lease meanwhile.
func TestLeadership_stuck(t *testing.T) {
	for _, kind := range []protocol.StepKind{protocol.StepHold, protocol.StepAwait, protocol.StepSurvey, protocol.StepReconcile, protocol.StepWrite} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New(Config{Local: event.New(protocol.Local{}), Log: slog.New(slog.DiscardHandler)}).newLeadership(nil, "", 0)
				l.beginRound()
				l.job = &job{step: protocol.Step{Kind: protocol.StepReconcile}, cancel: func() {}, done: make(chan struct{})}
				step := protocol.Step{Kind: kind, Work: protocol.Work{LeaderEpoch: 2}}
				if got := l.execute(t.Context(), step); got != nextRound || !l.stuck {
					t.Errorf("got %d, stuck %t: it waits for a change", got, l.stuck)
				}
			})
		})
	}
}
