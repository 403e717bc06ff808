package model

import "github.com/lockstep-dev/lockstep/protocol"

// surveyFor is a survey, if the API answers and the stamps may serve where they must.
func (t *transition) surveyFor(l int, step *protocol.Step) bool {
	lead := &t.state.leaders[l]
	stopped := lead.doing != nothing
	t.abandon(l)
	fallback := t.cfg.entry(step.Work.FallbackEntry)
	if t.state.nodes[lead.node].unusable || t.needsStamps(fallback) && !t.stampsServe(l) {
		return stopped // and waits
	}
	t.say("%s surveys the mark and the stamps in the API (%s)", t.name(int(lead.node)), step.Rule)
	t.traceBegin(l, step)
	lead.mark = t.survey(l, fallback)
	if lead.mark.name == noName && !t.state.parent.exists {
		lead.mark.name = nameNumber(step.Work.FallbackEntry.Bundle)
	}
	t.traceSurvey(l, step)
	lead.predecessors = lead.predecessors.Surveyed(t.cfg.mark(lead.mark))
	return true
}

// survey reads the mark, or builds one from the status or the stamps
// (Reconciler.Survey). A stamp counts only in a mark that is built from stamps.
func (t *transition) survey(l int, fallback entry) mark {
	m := t.knownMark(l, fallback)
	m.highest = m.entries.highest()
	stampsCount := !t.state.parent.exists && (fallback.content == 0 || !t.cfg.holds(statusServes))
	if stampsCount || !t.cfg.holds(epochsFromEtcd) {
		m.highest = max(m.highest, t.highestStamp())
	}
	return m
}

// knownMark is the mark of the parent. If the parent is missing, it names the content of the
// status. Without a status too, it names the newest content of each release by
// the stamps on the objects of the leader's bundle.
func (t *transition) knownMark(l int, fallback entry) mark {
	p := t.state.parent
	if p.exists {
		return mark{kind: protocol.MarkPresent, firstDone: p.firstDone, store: p.store, name: p.name, entries: p.entries}
	}
	if fallback.content != 0 && t.cfg.holds(statusServes) {
		return mark{kind: protocol.MarkPresent, firstDone: true, entries: entries{fallback}}
	}
	out := mark{kind: protocol.MarkAbsent}
	for r := 1; r <= t.cfg.Releases; r++ {
		e := entry{content: uint8(t.cfg.contents() + r)}
		for i, o := range t.state.objects[:len(t.cfg.Objects)] {
			wanted := t.cfg.form(i, t.state.nodes[t.state.leaders[l].node].run) != 0
			if o.form != 0 && wanted && o.stamp.content != 0 && t.cfg.releaseOf(o.stamp.content) == r {
				e.epoch = max(e.epoch, o.stamp.epoch)
			}
		}
		if e.epoch == 0 {
			continue
		}
		out.kind, out.firstDone = protocol.MarkPresent, true
		if !out.entries.add(e) {
			t.event.noRoom = true
		}
	}
	return out
}

func (t *transition) highestStamp() uint8 {
	var highest uint8
	for _, o := range t.state.objects {
		highest = max(highest, o.stamp.epoch)
	}
	return highest
}
