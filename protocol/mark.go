package protocol

import (
	"cmp"
	"fmt"
	"slices"
)

// Content identifies one form of the objects: a bundle's content, and the
// content epoch that brought it (docs/protocol-objects.md#stale-writes).
type Content struct {
	Release     Release
	Constraints Constraints
	Digest      string
	Bundle      string // the name of the bundle; empty: unknown
	Epoch       int64  // the content epoch
}

// Same reports whether c and o are the same content, whatever their epochs. The
// digest covers the constraints.
func (c Content) Same(o Content) bool {
	return c.Release == o.Release && c.Digest == o.Digest
}

// String prints the content canonically.
func (c Content) String() string {
	text := fmt.Sprintf("%s@%d digest=%s M=%s A=%s", c.Release, c.Epoch, c.Digest, c.Constraints.MinReconciler, c.Constraints.MinAPIServer)
	if c.Bundle != "" {
		text += " bundle=" + c.Bundle
	}
	return text
}

// MarkKind says whether the mark is known, and whether it exists.
type MarkKind int

// The kinds of a mark. The zero value means that it was not read yet, or that
// the API is unreachable. That is neither present nor absent, so a leader that
// needs the mark waits.
const (
	MarkUnknown MarkKind = iota
	MarkAbsent
	MarkPresent
)

// Mark is what the set's parent object in the Kubernetes API records: whether the
// first reconciliation was ever finished, and every content that may be present
// (docs/protocol-objects.md#mark).
type Mark struct {
	Kind      MarkKind
	FirstDone bool
	Entries   []Content // where Kind is MarkPresent and FirstDone, never empty
	// HighestEpoch is the highest content epoch in the mark; 0: none. Stamps count
	// only where the mark was made from them. It may be known although the mark is
	// not.
	HighestEpoch int64
	// Store is the store ID on the parent (docs/protocol-objects.md#stores); empty: none.
	// It may be known although the mark is not.
	Store string
}

// newest returns the entry with the highest content epoch, and the zero Content
// where there is none.
func (m Mark) newest() Content {
	if len(m.Entries) == 0 {
		return Content{}
	}
	return slices.MaxFunc(m.Entries, func(a, b Content) int { return cmp.Compare(a.Epoch, b.Epoch) })
}

// Bundle returns the bundle's name from the newest entry that contains one; empty:
// none does. Programs that do not know names write entries without one.
func (m Mark) Bundle() string {
	var newest Content
	for _, e := range m.Entries {
		if e.Bundle != "" && (newest.Bundle == "" || newest.Epoch < e.Epoch) {
			newest = e
		}
	}
	return newest.Bundle
}

// WithEntry returns entries with c. An entry that is c without a name is the same
// content: a program wrote it that does not know names.
func WithEntry(entries []Content, c Content) []Content {
	if slices.Contains(entries, c) {
		return entries
	}
	nameless := c
	nameless.Bundle = ""
	out := slices.DeleteFunc(slices.Clone(entries), func(e Content) bool { return e == nameless })
	return append(out, c)
}

// With returns the mark after a pass over c began: with an entry for c. An
// unknown mark stays unknown. The mark may name more content than the API
// contains, never less: a status that is rebuilt from it covers all content.
func (m Mark) With(c Content) Mark {
	if m.Kind == MarkUnknown || slices.Contains(m.Entries, c) {
		return m
	}
	m.Kind = MarkPresent
	m.Entries = WithEntry(m.Entries, c)
	m.HighestEpoch = max(m.HighestEpoch, c.Epoch)
	return m
}

// After returns the mark after the pass over c ended with out. A complete pass
// leaves only c, and firstDone. After an unfounded pass, or one that found another
// store's ID, the mark is unknown except for the highest epoch and the store ID
// that the pass found.
func (m Mark) After(c Content, out Outcome) Mark {
	if out.Unfounded || out.ForeignStore != "" {
		return Mark{HighestEpoch: out.HighestEpoch, Store: out.ForeignStore}
	}
	m.HighestEpoch = max(m.HighestEpoch, out.HighestEpoch)
	if out.Complete {
		m.Kind, m.FirstDone, m.Entries, m.HighestEpoch = MarkPresent, true, []Content{c}, c.Epoch
	}
	return m
}
