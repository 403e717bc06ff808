package model

// This file checks that each way out of a rollback leads to DONE: forward, back, and whatever people
// forget. Nothing holds up a fleet in which every node runs one release.

// waysFrom follows all runs after people have started every node with one release. It returns why
// one of them is wrong, or the empty string.
func (p *progress) waysFrom(st *state) string {
	if !p.s.cfg.Ways {
		return ""
	}
	for k, m := range p.s.moves {
		if m.kind != moveSettle {
			continue
		}
		if why := p.endsAfter(st, k); why != "" {
			return why
		}
	}
	return ""
}

// endsAfter follows all runs after a move that is made only here. A move that is not possible has none.
func (p *progress) endsAfter(st *state, k int) string {
	next := *st
	t := p.s.transition(&next)
	if !t.apply(p.s.moves[k]) {
		return ""
	}
	t.canonical()
	why := p.ends(&next)
	if why != "" {
		p.run = append(p.run, uint16(k))
	}
	return why
}

// forgotten follows all runs after the time of a rollback that people forgot is over.
func (p *progress) forgotten(st *state) string {
	if st.rollback == 0 {
		return ""
	}
	if !p.s.cfg.isOver(st.rollback) {
		return "a rollback that people forget never ends"
	}
	for k, m := range p.s.moves {
		if m.kind == moveForgetRollback {
			return p.endsAfter(st, k)
		}
	}
	return ""
}

// settle is people who start every node with one content, and end the rollback, or keep it if it is one
// to that release. No fault happens any more.
//
//revive:disable-next-line:flag-parameter it is a fact
func (t *transition) settle(content uint8, kept bool) bool {
	st := t.state
	if kept && (st.rollback == 0 || int(st.rollback) != t.cfg.releaseOf(content)) {
		return false
	}
	if !kept {
		t.forgetRollback()
	}
	t.say("from now on every node runs %s, and no fault happens", t.contentText(content))
	st.faults, st.changes = 0, uint8(t.cfg.Nodes)
	for i := range t.cfg.Nodes {
		t.uncordon(i)
		st.nodes[i].cordoned = false
		t.start(i, content)
	}
	st.changes = 0
	return true
}

// allOfOne reports whether every node runs one release and is in service.
func (t *transition) allOfOne() bool {
	first := t.cfg.releaseOf(t.state.nodes[0].run)
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		if n.run == 0 || t.cfg.releaseOf(n.run) != first || !n.alive || !n.registered {
			return false
		}
		if n.cordoned || n.unusable || n.withdrawn || n.services.held || n.leaving != notLeaving {
			return false
		}
	}
	return true
}
