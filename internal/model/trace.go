package model

import (
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// tracer receives the actions of leader l in a transition. The leaders of the model are
// held to the same rules as the ones that ship (docs/model.md#traces).
type tracer func(t *transition, l int, e trace.Event)

func (t *transition) trace(l int, e trace.Event) {
	if t.tracer != nil {
		t.tracer(t, l, e)
	}
}

func (t *transition) traceRound(l int, step *protocol.Step) {
	if t.tracer != nil {
		in := t.cfg.input(t.state, l)
		in.Progress.APIGone = step.Rule == protocol.YieldUnreachable
		t.trace(l, trace.Event{Round: &trace.Round{Input: in, Step: *step, Restored: t.isRestored(l)}})
	}
}

func (t *transition) traceBegin(l int, step *protocol.Step) {
	if t.tracer != nil {
		t.trace(l, trace.Event{Begin: &trace.Begin{Kind: step.Kind, Work: step.Work}})
	}
}

// traceSurvey reports the end of a survey.
func (t *transition) traceSurvey(l int, step *protocol.Step) {
	if t.tracer != nil {
		found := t.cfg.mark(t.state.leaders[l].mark)
		t.trace(l, trace.Event{End: &trace.End{Kind: step.Kind, Work: step.Work, Used: true, Mark: found}})
	}
}

// tracePass reports the end of the pass of a leader, or of its keeping, if one is
// under way.
func (t *transition) tracePass(l int, end trace.End) {
	lead := &t.state.leaders[l]
	if t.tracer == nil || lead.doing != passing && lead.doing != keeping {
		return
	}
	end.Kind, end.Work = t.cfg.job(lead)
	t.trace(l, trace.Event{End: &end})
}

func (t *transition) traceWrite(l int) {
	if t.tracer != nil {
		t.trace(l, trace.Event{Write: &trace.Write{Status: t.cfg.plain(t.state.leaders[l].write.status)}})
	}
}

func (t *transition) traceResign(l int, f protocol.ResignFacts, st protocol.Status) {
	if t.tracer != nil {
		t.trace(l, trace.Event{Resign: &trace.Resign{Facts: f, Status: st}})
	}
}

// job is a leader's work with the API: its pass or its keeping.
func (c *Config) job(lead *leader) (protocol.StepKind, protocol.Work) {
	if lead.doing == keeping {
		return protocol.StepHold, protocol.Work{
			Content: c.content(lead.pass.content), Store: c.store(), LeaderEpoch: formerEpoch + int64(lead.epoch),
		}
	}
	return protocol.StepReconcile, c.work(lead)
}

// work is the work of a leader's pass.
func (c *Config) work(lead *leader) protocol.Work {
	p := &lead.pass
	out := protocol.Work{
		Content: c.content(p.content), Removals: p.removals, First: p.first, Wait: p.wait,
		Store: c.store(), LeaderEpoch: formerEpoch + int64(lead.epoch),
	}
	if p.fallback != (entry{}) {
		out.FallbackEntry = c.content(p.fallback)
	}
	return out
}

// traced translates a leader of a state for a trace.
func (c *Config) traced(lead *leader) *trace.Leader {
	out := &trace.Leader{Epoch: formerEpoch + int64(lead.epoch), Mark: c.mark(lead.mark), Seen: lead.seen, Passed: true}
	out.Progress.Predecessors, out.Progress.Owed = lead.predecessors, int(lead.owed)
	if lead.finished != (entry{}) {
		out.Progress.Finished = c.content(lead.finished)
	}
	switch lead.doing {
	case passing, keeping:
		kind, work := c.job(lead)
		out.Job = &trace.Begin{Kind: kind, Work: work}
		out.Step = protocol.Step{Kind: kind, Work: work}
	case writing:
		out.Step = protocol.Step{Kind: protocol.StepWrite, Status: c.plain(lead.write.status)}
	case nothing:
	}
	return out
}
