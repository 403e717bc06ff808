package election

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// This file reports the events of a leader to Config.Trace (package trace). If
// that is nil, each method here returns at once.

func (l *leadership) trace(e trace.Event) {
	if l.e.cfg.Trace != nil {
		l.e.cfg.Trace(e)
	}
}

// sinceConfirmed converts an instant for a trace; zero stays zero.
func (l *leadership) sinceConfirmed(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return at.Sub(l.clock.confirmed)
}

func (l *leadership) traceElected() {
	l.trace(trace.Event{Elected: &trace.Elected{Epoch: l.epoch, DrainTime: l.e.drainTime}})
}

func (l *leadership) traceRound(in protocol.Input, step protocol.Step) {
	if l.e.cfg.Trace != nil {
		l.trace(trace.Event{Round: &trace.Round{Input: in, Step: step, Restored: l.restored}})
	}
}

func (l *leadership) traceBegin(step protocol.Step, quiet time.Time) {
	if l.e.cfg.Trace != nil {
		l.trace(trace.Event{Begin: &trace.Begin{Kind: step.Kind, Work: step.Work, Quiet: l.sinceConfirmed(quiet)}})
	}
}

// traceEnd reports the end of a job. used: the leader uses its result.
func (l *leadership) traceEnd(j *job, used bool) {
	if l.e.cfg.Trace == nil {
		return
	}
	out := j.outcome
	unsure := l.sinceConfirmed(out.Unsure)
	out.Unsure = time.Time{} // of this process's clock
	l.trace(trace.Event{End: &trace.End{
		Kind: j.step.Kind, Work: j.step.Work, Used: used, Failed: j.err != nil, Mark: j.mark, Outcome: out, Unsure: unsure,
	}})
}

func (l *leadership) traceWrite(step protocol.Step) {
	if l.e.cfg.Trace != nil {
		l.trace(trace.Event{Write: &trace.Write{Status: step.Status, Guard: step.Guard}})
	}
}

func (l *leadership) traceResign(f protocol.ResignFacts, st protocol.Status, now time.Time) {
	if l.e.cfg.Trace != nil {
		l.trace(trace.Event{Resign: &trace.Resign{Facts: f, Status: st, At: l.sinceConfirmed(now)}})
	}
}

func (l *leadership) traceDelete(r protocol.Record) {
	if l.e.cfg.Trace != nil {
		l.trace(trace.Event{Delete: &trace.Delete{Record: r}})
	}
}

func (l *leadership) traceOver() {
	if l.e.cfg.Trace != nil {
		l.trace(trace.Event{Over: &trace.Over{Stuck: l.stuck}})
	}
}
