package model

// land lets a leader's request reach the API, and its answer reach the leader.
func (t *transition) land(l int) bool {
	lead := &t.state.leaders[l]
	if !lead.on || lead.pass.request.kind == noRequest {
		return false
	}
	r := lead.pass.request
	lead.pass.request = request{}
	t.say("the request of %s lands:", t.name(int(lead.node)))
	done := t.serve(r)
	switch {
	case done && r.create && r.kind.ofMark() && t.cfg.holds(blankFirst):
		lead.pass.parent = true // and it writes the mark next
		return true
	case !r.kind.ofMark():
		t.readObject(l, int(r.object)) // if it was refused, or as the answer contains it
		return true
	case !done && r.kind == finishRequest:
		t.failPass(l) // and tries again
		return true
	case lead.doing == keeping:
		return true
	case !done:
		lead.pass.parent = true // it was read again
		return true
	}
	lead.pass.parent = true
	if r.kind == finishRequest {
		t.endPass(l, t.completeOutcome(l))
		return true
	}
	lead.pass.at = applying
	return true
}

// readObject continues a pass, or a repair, with an object as it is now.
func (t *transition) readObject(l, i int) {
	p := &t.state.leaders[l].pass
	p.fresh |= 1 << i
	if t.differs(l, i) {
		return
	}
	p.todo &^= 1 << i
	if p.todo == 0 {
		p.at = relisting
	}
}

// differs reports whether an object has to be written or removed.
func (t *transition) differs(l, i int) bool {
	p := &t.state.leaders[l].pass
	if t.cfg.form(i, p.content.content) == 0 {
		return p.removals && t.removable(l, i)
	}
	return t.mustWrite(i, p.content)
}

// landOrphan lets a request land whose sender no longer waits for it.
func (t *transition) landOrphan(i int) bool {
	r := t.state.orphans[i]
	if r.kind == noRequest {
		return false
	}
	t.state.orphans[i] = request{}
	t.event.late = true
	t.say("a late request lands, whose sender no longer waits:")
	t.serve(r)
	return true
}

// loseOrphan drops such a request: it never lands.
func (t *transition) loseOrphan(i int) bool {
	if t.state.orphans[i].kind == noRequest {
		return false
	}
	t.state.orphans[i] = request{}
	t.say("a request whose sender no longer waits never lands")
	return true
}

// serve is the API server: it executes a request or refuses it.
func (t *transition) serve(r request) bool {
	switch r.kind {
	case objectRequest:
		return t.serveObject(r)
	case stripRequest:
		return t.serveStrip(r)
	case deleteRequest:
		return t.serveDelete(r)
	case noRequest, beginRequest, finishRequest:
	}
	was := t.state.parent
	if !t.accepts(r, was.exists || was.blank) {
		t.say("  the API refuses the mark")
		return false
	}
	if r.create && t.cfg.holds(blankFirst) {
		t.say("  the API creates the parent")
		t.touchParent()
		t.state.parent = parent{blank: true}
		return true
	}
	now := parent{exists: true, firstDone: was.firstDone, leader: r.leader, store: was.store, name: was.name, inventory: r.inventory}
	if t.cfg.Stores && was.store == 0 {
		now.store = thisStore
	}
	if r.kind == finishRequest {
		now.firstDone, now.entries = true, entries{r.content}
	} else {
		now = t.begun(r, now)
	}
	now.name = t.nameBeside(was, r)
	t.say("  the API writes the mark: %s", t.markText(now))
	t.touchParent()
	t.state.parent = now
	return true
}

// begun adds the content to the mark, or to the mark that the request creates.
func (t *transition) begun(r request, now parent) parent {
	now.entries = t.state.parent.entries
	if r.rebuilds {
		now.firstDone, now.entries = r.firstDone, r.entries
	}
	if !t.cfg.holds(firstDone) {
		now.firstDone = true
	}
	if !now.entries.add(r.content) {
		t.event.noRoom = true
	}
	return now
}

// accepts checks the preconditions of a request.
func (t *transition) accepts(r request, exists bool) bool {
	if r.create {
		return !exists
	}
	return exists && r.fresh || !t.cfg.holds(preconditions)
}

func (t *transition) serveObject(r request) bool {
	i := int(r.object)
	was := t.state.objects[i]
	refused := !t.accepts(r, was.form != 0)
	if t.cfg.Policy && was.form != 0 && r.content.epoch < was.stamp.epoch {
		refused = true
	}
	if refused {
		t.say("  the API refuses object %d", i+1)
		return false
	}
	t.event.wrote, t.event.object, t.event.objectBefore, t.event.request = true, i, was, r
	t.touchObject(i)
	t.state.objects[i] = object{form: t.cfg.form(i, r.content.content), stamp: r.content}
	t.say("  the API writes object %d in the form of %s, content epoch %d", i+1, t.contentText(r.content.content), r.content.epoch)
	return true
}

// touchParent changes the resourceVersion of the parent: every version that was
// read before is stale.
func (t *transition) touchParent() {
	for l := range t.state.leaders {
		p := &t.state.leaders[l].pass
		p.parent = false
		if p.request.kind.ofMark() {
			p.request.fresh = false
		}
	}
	for i := range t.state.orphans {
		if o := &t.state.orphans[i]; o.kind.ofMark() {
			o.fresh = false
		}
	}
}

// touchObject does the same for an object.
func (t *transition) touchObject(i int) {
	for l := range t.state.leaders {
		p := &t.state.leaders[l].pass
		p.fresh &^= 1 << i
		if !p.request.kind.ofMark() && int(p.request.object) == i {
			p.request.fresh = false
		}
	}
	for k := range t.state.orphans {
		if o := &t.state.orphans[k]; !o.kind.ofMark() && int(o.object) == i {
			o.fresh = false
		}
	}
}
