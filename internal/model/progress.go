package model

import (
	"cmp"
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
)

// progress checks the invariant Progress. If from some state on no fault happens
// and no administrator acts, then every run ends. Where it ends, the upgrade is
// complete or a leader names the nodes that hold it up.
//
// Every run ends because no state is reached from itself. This needs no
// assumption of fairness, except that some possible move happens.
type progress struct {
	s     *search
	color map[uint64]color
	run   []uint16   // the moves of a run that ends badly, the last one first
	path  []*attempt // one for each state of the run that is being followed
	depth int        // how many of them are in use
}

// attempt is a move that is tried on a copy of a state.
type attempt struct {
	next state
	now  transition
}

type color uint8

const (
	onPath   color = iota + 1 // its runs are being followed
	explored                  // all its runs end
)

// CheckProgress visits every state that cfg can reach, as Check does, and follows
// all runs from each of them.
func CheckProgress(cfg *Config) Result {
	s := newSearch(cfg, 0)
	s.progress = &progress{s: s, color: map[uint64]color{}}
	return s.run()
}

// ends follows all runs from st. It returns why one of them is wrong, or
// the empty string.
func (p *progress) ends(st *state) string {
	h := p.s.fingerprint(st)
	switch p.color[h] {
	case onPath:
		return "a run goes in a circle"
	case explored:
		return ""
	}
	p.color[h] = onPath
	moved, why := p.follow(st)
	if why != "" {
		return why
	}
	p.color[h] = explored
	if moved {
		return ""
	}
	t := p.s.transition(st)
	return cmp.Or(t.finalState(), p.forgotten(st))
}

// follow follows the runs from st, and reports whether there are any.
func (p *progress) follow(st *state) (moved bool, why string) {
	if p.depth == len(p.path) {
		p.path = append(p.path, &attempt{})
	}
	try := p.path[p.depth]
	p.depth++
	defer func() { p.depth-- }()
	for k, m := range p.s.moves {
		if m.isFault() || m.isChange() || !m.possible(st) {
			continue
		}
		try.next = *st
		try.now = p.s.transition(&try.next)
		if !try.now.apply(m) {
			continue
		}
		if try.now.event.noRoom {
			p.s.result.Unfollowed++
			continue
		}
		moved = true
		try.now.canonical()
		if why := p.ends(&try.next); why != "" {
			p.run = append(p.run, uint16(k))
			return true, why
		}
	}
	return moved, ""
}

// finalState returns why a state in which no move is possible is wrong, or the empty string.
func (t *transition) finalState() string {
	newest, able := t.newestAble()
	for l := range t.state.leaders {
		lead := &t.state.leaders[l]
		if !lead.on || !lead.key {
			continue
		}
		step := t.next(l)
		own := t.cfg.releaseOf(t.state.nodes[lead.node].run)
		if why := t.heldRollback(own, step); why != "" {
			return why
		}
		if len(step.Blockers) > 0 && !t.allOfOne() {
			t.count.ended["with blockers named, "+string(step.Rule)]++
			return ""
		}
		if own < newest {
			return fmt.Sprintf("release %d leads while release %d is alive", own, newest)
		}
		return t.completed(own, step)
	}
	if !able {
		t.count.ended["with no node that could lead"]++
		return ""
	}
	return "no node leads"
}

// newestAble is the newest release of the nodes that run, are in service, and whose API
// answers.
func (t *transition) newestAble() (newest int, able bool) {
	for i := range t.cfg.Nodes {
		if n := &t.state.nodes[i]; n.run != 0 && !n.unusable && !n.cordoned && !n.services.held && t.mayLeadRollback(i) {
			newest, able = max(newest, t.cfg.releaseOf(n.run)), true
		}
	}
	return newest, able
}

// completed returns why an upgrade that no node holds up is not complete, or the empty string.
func (t *transition) completed(newest int, step *protocol.Step) string {
	s := t.state.status
	if s.kind != protocol.StatusPresent || s.state != protocol.Done || int(s.version) != newest {
		return fmt.Sprintf("the upgrade to release %d is held up, and no blocker is named (%s)", newest, step)
	}
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		if n.run != 0 && t.cfg.releaseOf(n.run) == newest && !n.ready && !n.cordoned && !n.services.held {
			return fmt.Sprintf("release %d is DONE, and a node of it is not ready", newest)
		}
	}
	for i := range t.cfg.Objects {
		o, want := t.state.objects[i], t.cfg.form(i, s.content.content)
		if t.cfg.Keep && want != 0 && (o.form != want || o.stamp.epoch > s.content.epoch) {
			return fmt.Sprintf("release %d is DONE, and nothing repairs object %d", newest, i+1)
		}
	}
	t.count.ended["complete"]++
	return ""
}
