package model

import "github.com/lockstep-dev/lockstep/protocol"

// memo keeps the answers of the core, which depend on its inputs alone.
type memo struct {
	steps    map[facts]*protocol.Step
	verdicts map[gateFacts]protocol.Verdict
	eligible map[facts]bool
}

func newMemo() *memo {
	return &memo{
		steps:    map[facts]*protocol.Step{},
		verdicts: map[gateFacts]protocol.Verdict{},
		eligible: map[facts]bool{},
	}
}

// facts are all that a leader's decision depends on.
type facts struct {
	nodes       [maxNodes]nodeFacts
	status      status
	node, epoch uint8
	run         uint8
	mark        mark
	finished    entry
	due         bool
	past        protocol.DrainState
}

type nodeFacts struct {
	record, before uint8
	alive          bool
	expired        bool
}

// gateFacts are all that a gate's verdict depends on.
type gateFacts struct {
	run        uint8
	registered bool
	ready      bool
	status     status
}

func (t *turn) factsOf(l int) facts {
	lead := &t.w.leaders[l]
	f := facts{
		status: t.w.status, node: lead.node, epoch: lead.epoch, run: t.w.nodes[lead.node].run,
		mark: lead.mark, finished: lead.finished, due: lead.due, past: lead.past,
	}
	t.recordFacts(&f)
	for i := range t.cfg.Nodes {
		f.nodes[i].expired = t.w.nodes[i].expired&place(l) != 0
	}
	return f
}

func (t *turn) recordFacts(f *facts) {
	for i := range t.cfg.Nodes {
		n := &t.w.nodes[i]
		f.nodes[i] = nodeFacts{record: n.record, before: n.before, alive: n.alive}
	}
}

// mayCampaign asks the core whether a node may.
func (t *turn) mayCampaign(i int) bool {
	key := facts{node: uint8(i), run: t.w.nodes[i].run}
	t.recordFacts(&key)
	may, found := t.memo.eligible[key]
	if !found {
		may = protocol.Eligible(t.cfg.fleet(t.w), t.cfg.local(t.w, i)).Eligible
		t.memo.eligible[key] = may
	}
	return may
}
