package model

import (
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// state is a state of the world. It is a plain value: equal states are equal
// values.
type state struct {
	nodes   [maxNodes]node
	leaders [maxLeaders]leader // the one with the lower epoch first
	deadKey bool               // the leader's key exists, and its owner is dead
	status  status
	objects [maxObjects]object
	parent  parent
	orphans [maxOrphans]request

	faults, changes uint8 // that may still happen
	complete        bool  // a leader found all objects in place once
	unlisted        bool  // an inventory was lost, so it may lack objects
	backup          backup
	replacement     uint8 // the name of the bundle that may replace the other one
	owner           uint8 // the name of the bundle whose objects are there
	asked           uint8 // which bundles may replace it, although the replacement was used: one bit each
	rollback        uint8 // the release to which administrators roll back; 0: none
	whole           bool  // it began in an upgraded cluster, when no node and no object was there yet
	ending          ending
	old             bool // a restore brought back the status, and no leader wrote it since
}

// node is a machine, its sidecar, and its keys in etcd.
type node struct {
	run        uint8 // the content that its sidecar runs; 0: the sidecar does not run
	registered bool  // it knows that its record matches what it runs
	ready      bool
	// staleRead: its watch may still deliver a status from before the current one
	// that it did not see yet and that admits it.
	staleRead bool

	record uint8 // the content that its record names; 0: there is no record; or corrupt
	before uint8 // the content that the record named before its last write: for a lagging watch
	alive  bool  // it has a presence

	// serves is in the record: the sidecar registered with the controller role, and
	// not without it since.
	serves   bool
	roleless bool // the record is without the controller role
	plain    bool // the sidecar registered without the role, so its gate is closed

	overdue bool // its gate is closed, since its presence was not confirmed for too long
	// The counts of leaders: one bit for each place in state.leaders.
	absent    uint8 // the leader saw that the presence is missing; kept only without the safeguard announced
	confirmed uint8 // the presence was confirmed since then, and the leader did not see it
	expired   uint8 // the presence was missing for the whole expiry time in the record

	leaving   leaving
	chosen    uint8 // the leader is about to delete the record: one bit each, too
	keyLeft   bool  // a candidate's key is on its lease, and it does not take part in the election
	unusable  bool  // its kube-apiserver does not answer
	withdrawn bool  // so its sidecar lets other nodes lead

	services services
	deployed uint8 // the content of its kube-apiserver's release; 0: none, or not Deployed

	cordoned bool // in the record
	obeys    bool // the sidecar knows the cordon

	saved   saved
	rewound bool // its sidecar runs since before a restore
	behind  bool // and did not notice the restore yet
}

// corrupt is the content of a record that cannot be decoded.
const corrupt = 255

// status is the status key.
type status struct {
	kind           protocol.StatusKind
	state          protocol.State
	version, least uint8 // releases; least is the minimum compatible release
	epoch          uint8 // of the leader in state.leaders; 0: of a former leader
	drained        bool  // no request of its leader, nor of any before, can still land
	content        entry
	name           uint8 // of the bundle; 0: none
}

// entry is a content and its content epoch.
type entry struct{ content, epoch uint8 }

// object is an object of the set. Form 0: it does not exist.
type object struct {
	form   uint8
	stamp  entry
	forged bool // no leader wrote the stamp, or the object
}

// parent is the set's parent object with the mark.
type parent struct {
	exists    bool // with a mark
	blank     bool // it exists, without a mark yet
	firstDone bool
	leader    uint8 // the epoch in state.leaders; 0: of a former leader
	store     uint8 // whose ID it carries; 0: none
	name      uint8 // of the bundle of the newest content; 0: none
	inventory uint8 // the objects that it lists, one bit each
	entries   entries
}

// The stores.
const (
	thisStore  = 1
	otherStore = 2
)

// entries are sorted; empty ones come last.
type entries [maxEntries]entry

// mark is the mark as a leader knows it.
type mark struct {
	kind      protocol.MarkKind
	firstDone bool
	store     uint8
	name      uint8
	entries   entries
	highest   uint8
}

// leader is a sidecar that believes it leads.
type leader struct {
	on           bool
	node         uint8
	key          bool  // its key exists in etcd
	epoch        uint8 // its place in state.leaders, from 1
	seen         bool  // it took a snapshot in this leadership
	predecessors protocol.DrainState
	mark         mark
	finished     entry
	owed         uint8 // removals that the last pass left for later
	due          bool  // a full pass is due, after drift
	inventory    uint8 // as its last pass left it; kept only if releases drop objects

	doing doing
	write write
	pass  pass
}

// doing is the current work of a leader.
type doing uint8

const (
	nothing doing = iota
	writing       // it decided on a status and did not commit it yet
	passing       // a pass over the objects is under way
	keeping       // it repairs the changes of others
)

// write is a write of the status that the leader decided on and did not
// commit yet.
type write struct {
	status    status
	guarded   bool // it requires the status that the decision was based on
	absent    bool // it requires that there is no status
	replaces  bool // it requires the replacement, and uses it
	unchanged bool // the status is still the one that the decision was based on
	fleet     fleetGuard
}

// fleetGuard says whether a write requires unmodified node records, and whether
// they are unmodified.
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
	first    bool  // it began as the first reconciliation
	wait     bool  // its last list must be taken when no other request can land
	fallback entry // of a mark that must be written again; none: the stamps decide
	at       stage
	todo     uint8 // objects to write, one bit each
	fresh    uint8 // objects whose resourceVersion did not change since it was read
	found    uint8 // objects that the last list found
	parent   bool  // the parent's resourceVersion did not change since it was read
	request  request
}

// stage is the progress of a pass.
type stage uint8

const (
	starting  stage = iota // reads the parent and lists
	beginning              // adds the content to the mark
	applying               // writes the objects, one by one
	relisting              // lists again
	finishing              // removes all other contents from the mark
)

// request is a request to the API that has not landed yet.
type request struct {
	kind    requestKind
	object  uint8
	create  bool // a POST: it requires that nothing exists
	fresh   bool // the resourceVersion that it carries is still current
	content entry
	leader  uint8 // who sent it; 0: a former leader
	// Rebuilds: there is no mark. Otherwise the request adds to the mark that it was
	// decided on, and needs no entries.
	rebuilds  bool
	firstDone bool
	entries   entries
	inventory uint8 // of a mark
}

type requestKind uint8

const (
	noRequest requestKind = iota
	objectRequest
	stripRequest  // removes the stamp of an object
	deleteRequest // of an object
	beginRequest
	finishRequest
)

func (k requestKind) ofMark() bool { return k == beginRequest || k == finishRequest }

// initialState returns the state that cfg starts with.
func initialState(cfg *Config) state {
	st := state{faults: uint8(cfg.Faults), changes: uint8(cfg.Changes)}
	st.status.kind = protocol.StatusAbsent
	if cfg.Start == newCluster {
		return st
	}
	one := entry{content: 1, epoch: 1}
	if cfg.Start == upgraded {
		one.content = uint8((cfg.Releases-1)*cfg.Builds + 1)
	}
	st.complete = true
	for i := range cfg.Nodes {
		st.nodes[i] = cfg.servingNode(one.content)
	}
	for i := range cfg.Objects {
		if form := cfg.form(i, one.content); form != 0 {
			st.objects[i] = object{form: form, stamp: one}
		}
	}
	st.parent = parent{exists: true, firstDone: true, leader: 1, inventory: cfg.wanted(one.content), entries: entries{one}}
	if cfg.Stores {
		st.parent.store = thisStore
	}
	name := cfg.nameOf(one.content)
	st.parent.name, st.owner = name, name
	st.status = status{
		kind: protocol.StatusPresent, state: protocol.Done, version: uint8(cfg.releaseOf(one.content)),
		least: uint8(cfg.A[cfg.releaseOf(one.content)-1]), epoch: 1, content: one, name: name,
	}
	st.leaders[0] = leader{
		on: true, key: true, epoch: 1, finished: one, seen: true, predecessors: protocol.Drained,
		mark: mark{kind: protocol.MarkPresent, firstDone: true, name: name, entries: entries{one}, highest: 1},
	}
	if cfg.drops() {
		st.leaders[0].inventory = st.parent.inventory
	}
	return st
}

// servingNode is a node that serves with a content.
func (c *Config) servingNode(content uint8) node {
	n := node{run: content, registered: true, ready: true, record: content, alive: true, serves: true}
	if c.Deployed {
		n.deployed = content
	}
	if c.Services {
		n.services = services{run: content, ready: true, wanted: yes, published: c.Publishes}
	}
	return n
}

// add keeps the entries sorted, and reports whether there was room.
func (s *entries) add(e entry) bool {
	if slices.Contains(s[:], e) {
		return true
	}
	for i, have := range s {
		if have == (entry{}) {
			s[i] = e
			return true
		}
		if e.less(have) {
			s[i], e = e, have
		}
	}
	return false
}

func (e entry) less(o entry) bool {
	return e.epoch < o.epoch || e.epoch == o.epoch && e.content < o.content
}

func (s entries) highest() uint8 {
	var highest uint8
	for _, e := range s {
		highest = max(highest, e.epoch)
	}
	return highest
}
