package model

// The leader of another store is without state here: it makes at any moment each move that the
// protocol allows. It does not know this store, and its own gates are
// not in the model.

// otherParent lets it write the mark on the parent, with its store's ID. It may, if
// the parent is missing or carries no ID.
func (t *transition) otherParent() bool {
	p := &t.state.parent
	if p.store != 0 {
		return false
	}
	t.say("the leader of another store writes the mark, with the ID of its store")
	t.touchParent()
	*p = parent{
		exists: true, firstDone: p.firstDone, store: otherStore, entries: p.entries,
		inventory: p.inventory | t.cfg.wanted(t.otherContent().content),
	}
	if !p.entries.add(t.otherContent()) {
		t.event.noRoom = true
	}
	t.drift()
	return true
}

// otherObject lets it write an object, once the parent carries the ID of its store.
func (t *transition) otherObject(i int) bool {
	c := t.otherContent()
	if t.state.parent.store != otherStore || t.state.objects[i].form == t.cfg.form(i, c.content) {
		return false
	}
	t.say("the leader of another store writes object %d in the form of %s", i+1, t.contentText(c.content))
	t.touchObject(i)
	t.state.objects[i] = object{form: t.cfg.form(i, c.content), stamp: c}
	t.drift()
	return true
}

// otherContent is the content of the other store: the last release, in a
// content epoch above all others.
func (t *transition) otherContent() entry {
	content := uint8(t.cfg.contents())
	for _, e := range t.state.parent.entries {
		if t.state.parent.store == otherStore && e.content == content {
			return e
		}
	}
	return entry{content: content, epoch: 1 + max(t.highestStamp(), t.state.parent.entries.highest())}
}
