package model

import "github.com/lockstep-dev/lockstep/protocol"

// breakAPI lets the kube-apiserver of a node fail. It still receives the requests that
// were sent to it.
func (t *transition) breakAPI(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || n.unusable {
		return false
	}
	n.unusable = true
	t.say("the kube-apiserver of %s does not answer any more", t.name(i))
	l := t.leadership(i)
	if l < 0 || t.state.leaders[l].doing == writing {
		return true
	}
	if r := t.state.leaders[l].pass.request; r.kind != noRequest {
		t.orphan(r)
		t.failPass(l)
	}
	return true
}

// mendAPI lets it answer again.
func (t *transition) mendAPI(i int) bool {
	n := &t.state.nodes[i]
	if !n.unusable {
		return false
	}
	n.unusable = false
	t.say("the kube-apiserver of %s answers again", t.name(i))
	return true
}

// yieldLeadership lets a leader that needs the API notice that it was
// unreachable for too long (docs/protocol.md#yielding).
func (t *transition) yieldLeadership(l int) bool {
	lead := &t.state.leaders[l]
	if !lead.on || !lead.key || !lead.seen || lead.doing == writing || !t.state.nodes[lead.node].unusable || !t.cfg.holds(yields) {
		return false
	}
	if step := t.next(l); step.Kind != protocol.StepSurvey && step.Kind != protocol.StepReconcile {
		return false
	}
	key := t.decisionKeyOf(l)
	key.gone = true
	step := t.nextFor(l, key)
	t.count.step(step)
	t.traceRound(l, step)
	return t.execute(l, step)
}

// campaignAgain ends the withdrawal of a node whose API answers.
func (t *transition) campaignAgain(i int) bool {
	n := &t.state.nodes[i]
	if !n.withdrawn || n.unusable || n.run == 0 {
		return false
	}
	n.withdrawn = false
	t.say("%s may lead again", t.name(i))
	return true
}
