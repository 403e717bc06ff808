package model

import "github.com/lockstep-dev/lockstep/protocol"

// state is a state. It is a plain value: equal states are equal values.
type state struct {
	nodes   [maxNodes]node
	leaders [maxLeaders]leader // the one with the lower epoch first
	deadKey bool               // the leader's key stands, and its owner is dead
	status  status
	objects [maxObjects]object
	parent  parent
	orphans [maxOrphans]request

	faults, changes uint8 // that may still happen
	complete        bool  // a leader found all objects in place once
}

// node is a machine, what etcd has of it, and its sidecar.
type node struct {
	run        uint8 // the content that its sidecar runs; 0: it does not run
	registered bool  // it knows that its record tells what it runs
	ready      bool
	// late: it may still be told a status from before the current one, which
	// it has not been told and which admits it.
	staleRead bool

	record uint8 // the content that its record tells; 0: none; corrupt
	before uint8 // what the record told before it was last written: for a watch that lags
	alive  bool  // it has a presence

	fenced bool // its gate is closed, for its presence was not confirmed for too long
	// What leaders have counted, one bit for each place in state.leaders.
	absent    uint8 // it has seen the presence gone; kept only without the rule Announced
	confirmed uint8 // the presence was confirmed since, and the leader has not seen it
	expired   uint8 // the presence has been gone for as long as the record says
}

// corrupt stands in place of a record's content.
const corrupt = 255

// status is the status key.
type status struct {
	kind           protocol.StatusKind
	state          protocol.State
	version, least uint8 // releases; least is the minimum compatible release
	epoch          uint8 // of the leader in state.leaders; 0: of a former one
	drained        bool  // its leader's requests, and those of all before, have ended
	content        entry
}

// entry names a content and its content epoch.
type entry struct{ content, epoch uint8 }

// object is an object of the set; form 0: it is not there.
type object struct {
	form  uint8
	stamp entry
}

// parent is the set's parent object with the mark.
type parent struct {
	exists    bool
	firstDone bool
	leader    uint8 // the epoch in state.leaders; 0: of a former one
	entries   entries
}

// entries are sorted; empty ones come last.
type entries [maxEntries]entry

// mark is what a leader believes of the mark.
type mark struct {
	kind      protocol.MarkKind
	firstDone bool
	entries   entries
	highest   uint8
}

// leader is a sidecar that believes it leads.
type leader struct {
	on           bool
	node         uint8
	key          bool  // its key stands in etcd
	epoch        uint8 // 1 is that of the first in state.leaders
	seen         bool  // it has taken a snapshot
	predecessors protocol.DrainState
	mark         mark
	finished     entry
	due          bool // a full pass is due

	doing doing
	write write
	pass  pass
}

// doing is what a leader is about.
type doing uint8

const (
	nothing doing = iota
	writing       // the status
	passing       // over the objects
)

// write is a write of the status that was decided and not committed yet.
type write struct {
	status    status
	guarded   bool // it has to find the status of the decision
	absent    bool // it has to find no status
	unchanged bool // the status still is that of the decision
	fleet     fleetGuard
}

// fleetGuard says whether a write asks for unmodified node records, and whether
// they still are.
type fleetGuard uint8

const (
	notAsked fleetGuard = iota
	unmodified
	modified
)

// pass is a pass over the objects.
type pass struct {
	content  entry
	removals bool
	first    bool  // it was begun as the first reconciliation
	wait     bool  // its last list has to come when nothing can land
	fallback entry // what a mark says that is made anew; none: what the stamps say
	at       stage
	todo     uint8 // objects to be written, one bit each
	fresh    uint8 // objects whose resourceVersion is as it was read
	parent   bool  // the parent's resourceVersion is as it was read
	request  request
}

// stage is how far a pass has come.
type stage uint8

const (
	starting  stage = iota // reads the parent, and lists
	beginning              // makes the mark name the content
	applying               // writes the objects, one by one
	relisting              // lists again
	finishing              // makes the mark name the content alone
)

// request is a request to the API that has not landed yet.
type request struct {
	kind    requestKind
	object  uint8
	create  bool // POST: it has to find nothing
	fresh   bool // what it was decided on is still there
	content entry
	stamp   entry // for an object: the stamp to write
	leader  uint8 // who sent it; 0: a former one
	// For a mark that is created: what it says. One that is updated says what
	// the mark says that it is decided on, and more.
	firstDone bool
	entries   entries
}

type requestKind uint8

const (
	noRequest requestKind = iota
	objectRequest
	beginRequest
	finishRequest
)

// first returns the world that cfg starts with.
func initialState(cfg *Config) state {
	st := state{faults: uint8(cfg.Faults), changes: uint8(cfg.Changes)}
	st.status.kind = protocol.StatusAbsent
	if cfg.Start == newCluster {
		return st
	}
	one := entry{content: 1, epoch: 1}
	st.complete = true
	for i := range cfg.Nodes {
		st.nodes[i] = node{run: 1, registered: true, ready: true, record: 1, alive: true}
	}
	for i := range cfg.Objects {
		st.objects[i] = object{form: cfg.form(i, 1), stamp: one}
	}
	st.parent = parent{exists: true, firstDone: true, leader: 1, entries: entries{one}}
	st.status = status{
		kind: protocol.StatusPresent, state: protocol.Done, version: 1, least: uint8(cfg.A[0]), epoch: 1, content: one,
	}
	st.leaders[0] = leader{
		on: true, key: true, epoch: 1, finished: one, seen: true, predecessors: protocol.Drained,
		mark: mark{kind: protocol.MarkPresent, firstDone: true, entries: entries{one}, highest: 1},
	}
	return st
}

// local is what a node's sidecar is and runs.
func (c *Config) local(st *state, i int) protocol.Local {
	content := c.content(entry{content: st.nodes[i].run})
	return protocol.Local{
		ID: nodeID(i), Version: protocol.Version{Release: content.Release},
		Constraints: content.Constraints, Digest: content.Digest, FenceAfter: c.fenceAfter(),
	}
}

// nodeIDs are sorted, as a fleet's records are.
var nodeIDs = [maxNodes]protocol.NodeID{"n1", "n2", "n3", "n4", "n5", "n6", "n7"}

func nodeID(i int) protocol.NodeID { return nodeIDs[i] }

// storeRevision is the revision that every snapshot is taken at, and
// statusRevision that of the status. The protocol only passes them on.
const (
	storeRevision  = 100
	statusRevision = 50
)

// fleet is a snapshot of all records and presences.
func (c *Config) fleet(st *state) protocol.Fleet {
	f := protocol.Fleet{Revision: storeRevision, Records: make([]protocol.Record, 0, c.Nodes)}
	for i := range c.Nodes {
		if st.nodes[i].record != 0 {
			f.Records = append(f.Records, c.record(i, st.nodes[i].record, st.nodes[i].alive))
		}
	}
	return f
}

func (c *Config) record(i int, recorded uint8, alive bool) protocol.Record {
	r := protocol.Record{ID: nodeID(i), Revision: 1, Created: 1, Writes: 1, Alive: alive}
	if recorded == corrupt {
		r.Problem = "garbage"
		return r
	}
	r.Node = c.recordedNode(i, recorded)
	return r
}

// told is the node that a record of a content tells.
func (c *Config) recordedNode(i int, content uint8) protocol.Node {
	p := c.content(entry{content: content})
	return protocol.Node{
		ID: nodeID(i), Roles: protocol.Roles{Controller: true}, Version: protocol.Version{Release: p.Release},
		MinReconciler: p.Constraints.MinReconciler, Digest: p.Digest, FenceAfter: c.fenceAfter(),
	}
}

// view is the status as the protocol has it.
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

// formerEpoch is the epoch of a leader that is not in state.leaders any more.
const formerEpoch = 10

// plain leaves Leader empty: who wrote it shows in the epoch.
func (c *Config) plain(s status) protocol.Status {
	p := c.content(s.content)
	out := protocol.Status{
		State: s.state, Version: version(int(s.version)), MinCompatible: release(int(s.least)),
		Epoch: formerEpoch + int64(s.epoch), Digest: p.Digest, ContentRelease: p.Release, ContentEpoch: p.Epoch,
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
		content: c.entry(protocol.Content{Release: p.ContentRelease, Digest: p.Digest, Epoch: p.ContentEpoch}),
	}
}

// mark is a leader's mark as the protocol has it.
func (c *Config) mark(m mark) protocol.Mark {
	out := protocol.Mark{Kind: m.kind, FirstDone: m.firstDone, HighestEpoch: int64(m.highest)}
	for _, e := range m.entries {
		if e != (entry{}) {
			out.Entries = append(out.Entries, c.content(e))
		}
	}
	return out
}
