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
func TestLeadership_wedged(t *testing.T) {
	for _, kind := range []protocol.StepKind{protocol.StepHold, protocol.StepAwait, protocol.StepSurvey, protocol.StepReconcile, protocol.StepWrite} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &leadership{
					e:   New(Config{Log: slog.New(slog.DiscardHandler)}),
					now: time.Now(),
					job: &job{step: protocol.Step{Kind: protocol.StepReconcile}, cancel: func() {}, done: make(chan struct{})},
				}
				step := protocol.Step{Kind: kind, Work: protocol.Work{LeaderEpoch: 2}}
				if got := l.execute(t.Context(), step); got != again || !l.wedged {
					t.Errorf("got %d, wedged %t: it waits for a change", got, l.wedged)
				}
			})
		})
	}
}
