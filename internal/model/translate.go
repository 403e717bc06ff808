package model

import (
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// local returns the facts that a sidecar knows of itself.
func (c *Config) local(st *state, i int) protocol.Local {
	content := c.content(entry{content: st.nodes[i].run})
	return protocol.Local{
		ID: nodeID(i), Version: protocol.Version{Release: content.Release},
		Constraints: content.Constraints, Digest: content.Digest, ExpireAfter: c.expireAfter(), Ephemeral: c.Ephemeral,
		PruneImmediately: c.Immediately, Bundle: content.Bundle,
	}
}

// nodeIDs are sorted, like the records of a fleet.
var nodeIDs = [maxNodes]protocol.NodeID{"n1", "n2", "n3", "n4", "n5", "n6", "n7"}

func nodeID(i int) protocol.NodeID { return nodeIDs[i] }

// storeRevision is the revision of every snapshot, statusRevision the revision of the
// status. The protocol only passes them on.
const (
	storeRevision  = 100
	statusRevision = 50
)

// fleet is a snapshot of all records and presences.
func (c *Config) fleet(st *state) protocol.Fleet {
	f := protocol.Fleet{Revision: storeRevision, Records: make([]*protocol.Record, 0, c.Nodes)}
	c.withRollback(&f, st.rollback, 0)
	records := make([]protocol.Record, c.Nodes) // one allocation
	for i := range c.Nodes {
		if st.nodes[i].record != 0 {
			records[i] = c.record(i, &st.nodes[i])
			f.Records = append(f.Records, &records[i])
		}
	}
	return f
}

func (c *Config) record(i int, n *node) protocol.Record {
	r := protocol.Record{ID: nodeID(i), Revision: 1, Created: 1, Writes: 1, Alive: n.alive}
	if c.withdrawnFor(n) {
		r.Presence.Election = protocol.Withdrawn
	}
	if n.record == corrupt {
		r.Problem = "garbage"
		return r
	}
	r.Node = c.recordedNode(i, n.record)
	r.Node.Roles.Controller, r.Node.Serves = !n.roleless, n.serves
	switch {
	case !n.cordoned:
	case !c.holds(cordonedCounts):
		r.Node.Roles.Controller, r.Node.Serves = false, false
	case c.holds(cordonedMakesWay):
		r.Node.Cordon = aCordon()
	}
	return r
}

// aCordon is one without an end.
func aCordon() protocol.Cordon { return protocol.Cordon{Message: "maintenance"} }

// recordedNode is the Node in the record of a node that runs a content.
func (c *Config) recordedNode(i int, content uint8) protocol.Node {
	p := c.content(entry{content: content})
	return protocol.Node{
		ID: nodeID(i), Version: protocol.Version{Release: p.Release},
		MinReconciler: p.Constraints.MinReconciler, Digest: p.Digest, ExpireAfter: c.expireAfter(), Ephemeral: c.Ephemeral,
		Bundle: p.Bundle,
	}
}

// view is the status as a value of the protocol.
func (c *Config) view(s status) protocol.StatusView {
	v := protocol.StatusView{Kind: s.kind}
	switch s.kind {
	case protocol.StatusUndecodable:
		v.Revision, v.Problem = statusRevision, "garbage"
	case protocol.StatusPresent:
		v.Revision, v.Status = statusRevision, c.plain(s)
	case protocol.StatusAbsent, protocol.StatusUnknown:
	}
	return v
}

// formerEpoch is the epoch of every leader that is no longer in state.leaders.
const formerEpoch = 10

// plain is a status as a value of the protocol. It leaves Leader empty: the epoch
// shows who wrote the status.
func (c *Config) plain(s status) protocol.Status {
	p := c.content(s.content)
	out := protocol.Status{
		State: s.state, Version: version(int(s.version)), MinCompatible: release(int(s.least)),
		Epoch: formerEpoch + int64(s.epoch), Digest: p.Digest, ContentRelease: p.Release, ContentEpoch: p.Epoch,
		Bundle: bundleNames[s.name],
	}
	if s.drained {
		out.DrainedEpoch = out.Epoch
	}
	return out
}

// packed is the inverse of plain.
func (c *Config) packed(p protocol.Status) status {
	return status{
		kind: protocol.StatusPresent, state: p.State, version: uint8(p.Version.Release.Major), least: uint8(p.MinCompatible.Major),
		epoch: uint8(p.Epoch - formerEpoch), drained: p.DrainedEpoch == p.Epoch,
		name:    nameNumber(p.Bundle),
		content: c.entry(protocol.Content{Release: p.ContentRelease, Digest: p.Digest, Epoch: p.ContentEpoch}),
	}
}

// storeIDs are the IDs of the stores.
var storeIDs = [...]string{"", "this", "other"}

// store is the ID of the leaders' store.
func (c *Config) store() string {
	if c.Stores {
		return storeIDs[thisStore]
	}
	return ""
}

// mark is a leader's mark as a value of the protocol.
func (c *Config) mark(m mark) protocol.Mark {
	out := protocol.Mark{Kind: m.kind, FirstDone: m.firstDone, HighestEpoch: int64(m.highest), Store: storeIDs[m.store]}
	for _, e := range m.entries {
		if e != (entry{}) {
			out.Entries = append(out.Entries, c.content(e))
		}
	}
	c.nameNewest(out.Entries, m.name)
	return out
}

// packedMark is the inverse of Config.mark. It returns false if the mark does not fit into
// a state.
func (c *Config) packedMark(p protocol.Mark) (m mark, ok bool) {
	m = mark{
		kind: p.Kind, firstDone: p.FirstDone, highest: uint8(p.HighestEpoch),
		store: uint8(slices.Index(storeIDs[:], p.Store)), name: nameNumber(p.Bundle()),
	}
	for _, e := range p.Entries {
		if !m.entries.add(c.entry(e)) {
			return mark{}, false
		}
	}
	return m, true
}

// contents is how many contents nodes can run. They are numbered from 1, by
// release and build. Above them, one number for each release means "of that
// release, digest unknown", as in a stamp. Above them, one number for each
// release and minimum means all contents that such a status covers.
func (c *Config) contents() int { return c.Releases * c.Builds }

// releaseOf returns the release of a content, also if the digest is unknown.
func (c *Config) releaseOf(content uint8) int {
	n := c.contents()
	switch {
	case int(content) > n+c.Releases:
		return (int(content)-n-c.Releases-1)/c.Releases + 1
	case int(content) > n:
		return int(content) - n
	}
	return (int(content)-1)/c.Builds + 1
}

// release is a release as a value of the protocol. Number 0 is the zero Release.
func release(number int) protocol.Release { return protocol.Release{Major: int64(number)} }

func version(number int) protocol.Version { return protocol.Version{Release: release(number)} }

// content is a content as a value of the protocol. If it comes from a stamp,
// neither its digest nor its M is known.
func (c *Config) content(e entry) protocol.Content {
	if e.content == 0 {
		return protocol.Content{Epoch: int64(e.epoch)}
	}
	r := c.releaseOf(e.content)
	out := protocol.Content{Release: release(r), Epoch: int64(e.epoch)}
	out.Constraints.MinAPIServer = release(c.A[r-1])
	if n := c.contents() + c.Releases; int(e.content) > n {
		out.Constraints.MinAPIServer = release((int(e.content)-n-1)%c.Releases + 1)
	}
	if int(e.content) <= c.contents() {
		out.Constraints.MinReconciler = release(c.M[r-1])
		out.Digest, out.Bundle = c.digest(e.content), bundleNames[c.nameOf(e.content)]
	}
	return out
}

// digest is the digest of a content: its release and build.
func (c *Config) digest(content uint8) string {
	return fmt.Sprintf("%d%c", c.releaseOf(content), 'a'+(int(content)-1)%c.Builds)
}

// entry is the inverse of content.
func (c *Config) entry(p protocol.Content) entry {
	r := int(p.Release.Major)
	e := entry{epoch: uint8(p.Epoch)}
	switch {
	case r == 0:
	case p.Digest == "" && (p.Constraints.MinAPIServer == release(0) || p.Constraints.MinAPIServer == release(c.A[r-1])):
		e.content = uint8(c.contents() + r)
	case p.Digest == "":
		least := int(p.Constraints.MinAPIServer.Major)
		e.content = uint8(c.contents() + c.Releases + (r-1)*c.Releases + least)
	default:
		e.content = uint8((r-1)*c.Builds + int(p.Digest[len(p.Digest)-1]-'a') + 1)
	}
	return e
}

// form is the form of an object in a content.
func (c *Config) form(i int, content uint8) uint8 {
	switch {
	case c.Objects[i] == sameForm:
		return 1
	case c.Objects[i] == droppedForm && c.releaseOf(content) > 1, c.Objects[i] == addedForm && c.releaseOf(content) == 1:
		return 0
	}
	return content
}

// wanted are the objects of a content, one bit each.
func (c *Config) wanted(content uint8) (bits uint8) {
	for i := range c.Objects {
		if c.form(i, content) != 0 {
			bits |= 1 << i
		}
	}
	return bits
}
