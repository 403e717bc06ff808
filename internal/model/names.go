package model

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Safeguards of the names of bundles (docs/protocol.md#bundle-names).
const (
	// A leader leaves the objects of a bundle with another name alone.
	bundleHeld safeguard = 1 << (52 - iota)
	// If the status names no bundle, the name beside the mark counts.
	nameRead
	// The name is a key of its own beside the mark: a program that does not know it
	// keeps it.
	nameKept
)

// With Config.Names, the first build of each release is of one bundle and the second of
// another. The third is run by a program that does not know names, and counts as the
// first: it is the same platform.
const (
	noName = iota
	firstName
	secondName
)

var bundleNames = [...]string{"", "first", "second"}

// nameOf is the name that a sidecar with a content knows.
func (c *Config) nameOf(content uint8) uint8 {
	if !c.Names || content == 0 || int(content) > c.contents() {
		return noName
	}
	return [...]uint8{firstName, secondName, noName}[(int(content)-1)%c.Builds]
}

// forgets reports whether a program runs that does not know names.
func (c *Config) forgets(content uint8) bool { return c.Names && c.nameOf(content) == noName }

// nameNumber is the inverse of bundleNames.
func nameNumber(name string) uint8 {
	for i, n := range bundleNames {
		if n == name {
			return uint8(i)
		}
	}
	return noName
}

// nameNewest gives the name beside a mark to its newest entry, and to no other.
func (c *Config) nameNewest(named []protocol.Content, name uint8) {
	if !c.Names || len(named) == 0 {
		return
	}
	newest := 0
	for i := range named {
		named[i].Bundle = ""
		if have := named[newest]; named[i].Epoch > have.Epoch || named[i].Epoch == have.Epoch && have.Digest == "" {
			newest = i
		}
	}
	named[newest].Bundle = bundleNames[name]
}

// withNames adds to the facts of a leader those that only programs with names read.
func (c *Config) withNames(st *state, content uint8, in *protocol.Input) {
	if !c.Names {
		return
	}
	if c.forgets(content) {
		in.Status.Status.Bundle = ""
		for i := range in.Mark.Entries {
			in.Mark.Entries[i].Bundle = ""
		}
		return
	}
	if st.replacement != noName {
		in.Replacement = protocol.Replacement{
			From: bundleNames[firstName+secondName-st.replacement], To: bundleNames[st.replacement], Revision: 1,
		}
	}
}

// nameMutated removes safeguards of names from the facts of a leader.
func (c *Config) nameMutated(in *protocol.Input) {
	if !c.holds(bundleHeld) && in.Local.Bundle != "" {
		in.Status.Status.Bundle = in.Local.Bundle
		for i := range in.Mark.Entries {
			in.Mark.Entries[i].Bundle = ""
		}
	}
	if !c.holds(nameRead) && in.Status.Kind == protocol.StatusPresent && in.Status.Status.Bundle == "" {
		in.Status.Status.Bundle = in.Local.Bundle
	}
}

// nameBeside is the name beside the mark after a write of it.
func (t *transition) nameBeside(was parent, r request) uint8 {
	switch {
	case !t.cfg.Names:
		return noName
	case t.cfg.forgets(r.content.content) && !t.cfg.holds(nameKept):
		return noName
	case t.cfg.forgets(r.content.content):
		return was.name
	case r.kind == finishRequest:
		return t.cfg.nameOf(r.content.content)
	}
	before := mark{kind: protocol.MarkPresent, entries: was.entries, name: was.name}
	if r.rebuilds {
		before.entries = r.entries
	}
	return nameNumber(t.cfg.mark(before).With(t.cfg.content(r.content)).Bundle())
}

// isNamed reports whether the name beside a mark need not change for a content.
func (t *transition) isNamed(m parent, content uint8) bool {
	return !t.cfg.Names || t.cfg.forgets(content) || m.name == t.cfg.nameOf(content)
}

// isOtherBundle reports whether a first reconciliation finds another name beside the mark.
func (t *transition) isOtherBundle(content uint8) bool {
	w := protocol.Work{First: true, Content: protocol.Content{Bundle: bundleNames[t.cfg.nameOf(content)]}}
	if t.state.replacement == t.cfg.nameOf(content) && t.state.replacement != noName {
		w.Over = bundleNames[firstName+secondName-t.state.replacement]
	}
	return t.cfg.Names && t.cfg.holds(bundleHeld) && w.OtherBundle(bundleNames[t.state.parent.name])
}

// replace is the command with which people let a bundle replace the objects of the other
// one.
func (t *transition) replace(to uint8) bool {
	from, s := firstName+secondName-to, t.state.status
	if t.state.changes == 0 || t.state.replacement != noName || s.kind == protocol.StatusPresent && s.name != from {
		return false
	}
	for i := range t.cfg.Nodes {
		if r := t.state.nodes[i].record; r != 0 && r != corrupt && t.cfg.nameOf(r) == to {
			t.state.changes--
			t.state.replacement = to
			t.say("people let the bundle %s replace the bundle %s", bundleNames[to], bundleNames[from])
			return true
		}
	}
	return false
}

// noteOwner notes of which bundle the objects are, when a leader sends one.
func (t *transition) noteOwner(content uint8) {
	name, st := t.cfg.nameOf(content), t.state
	switch {
	case name == noName:
	case name == st.owner:
		st.asked = noName
	case st.owner == noName, st.replacement == name, st.asked&(1<<name) != 0:
		st.owner, st.asked = name, noName
	default:
		t.event.unasked = fmt.Sprintf("a leader writes objects of the bundle %s over those of the bundle %s, which people did not ask for",
			bundleNames[name], bundleNames[st.owner])
	}
}

// checkOneBundle: no leader replaces the objects of one bundle by those of another,
// unless people asked for that.
func checkOneBundle(t *transition) string { return t.event.unasked }
