package model

import "github.com/lockstep-dev/lockstep/protocol"

// memo keeps the answers of the core, which depend only on its inputs.
type memo struct {
	steps    map[decisionKey]*protocol.Step
	verdicts map[gateKey]protocol.Verdict
	eligible map[decisionKey]bool
}

func newMemo() *memo {
	return &memo{
		steps:    map[decisionKey]*protocol.Step{},
		verdicts: map[gateKey]protocol.Verdict{},
		eligible: map[decisionKey]bool{},
	}
}

// decisionKey is everything that a leader's decision depends on.
type decisionKey struct {
	nodes        [maxNodes]nodeKey
	status       status
	node, epoch  uint8
	run          uint8
	mark         mark
	finished     entry
	owed         uint8
	due, gone    bool
	replacement  uint8
	rollback     uint8
	predecessors protocol.DrainState
}

type nodeKey struct {
	record, before   uint8
	alive            bool
	serves, roleless bool
	expired          bool
	withdrawn        bool
	cordoned         bool
}

// gateKey is everything that a gate's verdict depends on.
type gateKey struct {
	run        uint8
	registered bool
	plain      bool
	ready      bool
	withheld   bool
	obeys      bool
	status     status
}

func (t *transition) decisionKeyOf(l int) decisionKey {
	lead := &t.state.leaders[l]
	f := decisionKey{
		status: t.state.status, node: lead.node, epoch: lead.epoch, run: t.state.nodes[lead.node].run,
		mark: lead.mark, finished: lead.finished, owed: lead.owed, due: lead.due, predecessors: lead.predecessors,
		replacement: t.state.replacement,
	}
	t.recordFacts(&f)
	for i := range t.cfg.Nodes {
		f.nodes[i].expired = t.state.nodes[i].expired&bit(l) != 0
	}
	return f
}

func (t *transition) recordFacts(f *decisionKey) {
	f.rollback = t.state.rollback
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		f.nodes[i] = nodeKey{
			record: n.record, before: n.before, alive: n.alive, serves: n.serves, roleless: n.roleless,
			withdrawn: t.cfg.withdrawnFor(n), cordoned: n.cordoned,
		}
	}
}

// mayCampaign reports whether the core lets a node campaign.
func (t *transition) mayCampaign(i int) bool {
	key := decisionKey{node: uint8(i), run: t.state.nodes[i].run}
	t.recordFacts(&key)
	may, found := t.memo.eligible[key]
	if !found {
		f := t.cfg.fleet(t.state)
		f.Rollback = protocol.Rollback{}
		t.cfg.withRollback(&f, t.state.rollback, t.state.nodes[i].run)
		local := t.cfg.local(t.state, i)
		may = protocol.Eligible(f, local).Eligible && !t.cfg.yieldsInRollback(f, local)
		t.memo.eligible[key] = may
	}
	return may
}
