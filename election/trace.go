package election

import (
	"time"

	"github.com/lockstep-dev/lockstep/trace"
)

// trace reports an event of this leader (package trace).
func (l *leadership) trace(e trace.Event) { l.e.cfg.Trace.Report(e) }

// sinceConfirmed converts an instant for a trace; zero stays zero.
func (l *leadership) sinceConfirmed(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return at.Sub(l.clock.confirmed)
}

// traceEnd reports the end of a job. used: the leader uses its result.
func (l *leadership) traceEnd(j *job, used bool) {
	out := j.outcome
	unsure := l.sinceConfirmed(out.Unsure)
	out.Unsure = time.Time{} // of this process's clock
	l.trace(trace.Event{End: &trace.End{
		Kind: j.step.Kind, Work: j.step.Work, Used: used, Failed: j.err != nil, Mark: j.mark, Outcome: out, Unsure: unsure,
	}})
}
