package soak

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// nodeNames are the nodes; a shape uses the first of them.
var nodeNames = []string{"a", "b", "c", "d", "e"}

// plan is the schedule of a seed. It depends only on its random numbers, never on
// events of the run, so a seed always means the same schedule.
type plan struct {
	rng     *rand.Rand
	release int      // of the fleet, or the one that it is moving to
	only    []string // names of faults; nil: all
	shape   shape
	roles   placed // if roles are moved
	steps   int    // of such a plan
}

func newPlan(seed, lane uint64, s shape) *plan {
	return &plan{rng: rand.New(rand.NewPCG(seed, lane)), shape: s}
}

// action is an action of administrators.
type action int

// The actions.
const (
	move   action = iota // all nodes to another release, one after another
	roles                // the controller role is taken from a node and given back
	rejoin               // a node is removed and returns as a new one
	place                // a role is given to some nodes, or taken from them
)

// step is one thing that administrators do to the control plane.
type step struct {
	action action
	from   int // release
	to     int
	order  []int // nodes
	upto   int   // how many nodes are moved; if fewer than all, these are moved back
	role   string
	gives  bool // the role
	waits  []bool
	crash  []bool // the old sidecar is killed instead of stopped
	pause  time.Duration
	// asked: before a move to an older release, people type `sidecar rollback begin`, with
	// --for=1m if it is short, and with --force. Before other moves they end a rollback that is under way,
	// unless they forget it.
	asked, short, force, forgets bool
	// settle: the next step waits until the move is DONE, but not forever.
	settle bool
}

func (s step) String() string {
	switch s.action {
	case roles:
		return fmt.Sprintf("take the controller role from %s for %s", nodeNames[s.order[0]], s.pause)
	case rejoin:
		return fmt.Sprintf("remove %s for %s", nodeNames[s.order[0]], s.pause)
	case place:
		return s.kind() + " " + strings.Join(s.names(), " and ")
	default:
	}
	text := fmt.Sprintf("%s from %s to %s", s.kind(), releases[s.from].name, releases[s.to].name)
	if s.upto < len(s.order) {
		text += fmt.Sprintf(", given up after %d nodes", s.upto)
	}
	return text
}

// kind is the name under which a step is counted.
func (s step) kind() string {
	switch {
	case s.action == roles:
		return "role change"
	case s.action == rejoin:
		return "rejoin"
	case s.action == place && s.gives:
		return "give the role " + s.role + " to"
	case s.action == place:
		return "take the role " + s.role + " from"
	case s.to > s.from && s.upto < len(s.order):
		return "abandoned upgrade"
	case s.to > s.from:
		return "upgrade"
	case s.upto < len(s.order) && s.asked:
		return "abandoned rollback that is asked for"
	case s.upto < len(s.order):
		return "abandoned rollback"
	case s.asked:
		return "rollback that is asked for"
	}
	return "rollback"
}

// nextStep returns the next step. Two moves in three are upgrades.
func (p *plan) nextStep() step {
	s := step{order: p.rng.Perm(p.shape.nodes), upto: p.shape.nodes, pause: p.between(1, 5), from: p.release, to: p.release}
	for range p.shape.nodes {
		s.waits = append(s.waits, p.rng.IntN(3) > 0)
		s.crash = append(s.crash, p.rng.IntN(4) == 0)
	}
	s.settle = p.rng.IntN(4) > 0
	if p.shape.moves {
		return p.nextPlace(s)
	}
	switch p.rng.IntN(10) {
	case 0:
		s.action = roles
		return s
	case 1:
		s.action = rejoin
		return s
	}
	return p.nextMove(s, p.rng.IntN(3) > 0)
}

// nextMove makes a step a move to another release: an upgrade, if up is true and there is one.
func (p *plan) nextMove(s step, up bool) step {
	if p.release == 0 || up && p.release < newest() {
		s.to++
	} else {
		s.to--
	}
	s.asked = s.to < s.from && (p.rng.IntN(3) > 0 || p.shape.moves)
	s.short, s.force, s.forgets = p.rng.IntN(4) == 0, p.rng.IntN(2) == 0, p.rng.IntN(4) == 0
	if p.rng.IntN(4) == 0 {
		s.upto = 1 + p.rng.IntN(p.shape.nodes-1)
	} else {
		p.release = s.to
	}
	return s
}

// between returns a time between low and high seconds.
func (p *plan) between(low, high int) time.Duration {
	return time.Duration(low*1000+p.rng.IntN((high-low)*1000)) * time.Millisecond
}

// variant is a seed's choice for the whole run.
type variant struct {
	expire      bool    // records of dead nodes expire
	pods        int     // how many of the last nodes write an ephemeral record
	immediately [5]bool // releases whose removals do not wait for nodes
}

func newVariant(seed uint64) variant {
	rng := rand.New(rand.NewPCG(seed, 1<<32))
	v := variant{expire: rng.IntN(2) == 0}
	for i := range v.immediately {
		v.immediately[i] = rng.IntN(4) == 0
	}
	v.pods = rng.IntN(3)
	return v
}

func (v variant) String() string {
	text := "records never expire"
	if v.expire {
		text = "records expire after " + expireAfter.String()
	}
	if v.pods > 0 {
		text += fmt.Sprintf("; nodes that are pods: %v, except members of etcd", nodeNames[usual.nodes-v.pods:usual.nodes])
	}
	for i, immediately := range v.immediately {
		if immediately {
			text += fmt.Sprintf("; %s has prunePolicy: Immediately", releases[i].name)
		}
	}
	return text
}

// faultKind is a kind of fault.
type faultKind int

// The kinds of faults.
const (
	killSidecar faultKind = iota
	freezeSidecar
	freezeWriter // the leader, as soon as it works
	killWriter
	freezeMember
	killMember
	loseQuorum
	cutEtcd
	slowEtcd
	cutAPI
	slowAPI
	spoilAPI
	killAPI
	cutStore // an API server from etcd
	slowStore
	cutPeers // etcd members from each other
	slowPeers
	compact
	fillEtcd
	spoilRecord
	spoilPresence
	spoilCandidate
	dropCandidate
	spoilStatus
	dropStatus
	dropParent
	editObject
	dropStamp
	dropObject
	reloadBundle // of the release of a node
	loseNode     // for longer than leaders wait, where records expire
	isolateNode
	startDuplicate // a second sidecar with the node ID
	denyWrites
	dropNamespace
	restoreStore
	tenant // another user's objects with the labels and annotations of the set
	mutateWrites
	otherPrefix    // a sidecar with another etcd prefix, on the same API
	dropDefinition // a CRD, and the objects of its kind with it
	cutNodes       // from each other: nodes that are their own quorum
	loseSomePackets
	loseDisk    // of a node with a member, which is removed and joins again
	losePower   // of all nodes at one moment
	killService // of a node, and not its sidecar
	// The file of the service of all nodes at one moment: they restart it in turn.
	changeServices
	nFaults = iota
)

var faultNames = [nFaults]string{
	"kill sidecar", "freeze sidecar", "freeze leader at work", "kill leader at work", "freeze etcd member", "kill etcd member",
	"lose quorum", "cut sidecar from etcd", "slow etcd", "cut sidecar from apiserver", "slow apiserver",
	"spoil apiserver", "kill apiserver", "cut apiserver from etcd", "slow etcd for apiserver",
	"cut etcd members from each other", "slow etcd members to each other", "compact etcd", "fill etcd",
	"garbage in record", "garbage in presence",
	"garbage among candidates", "delete leader's key", "garbage in status", "delete status", "delete parent",
	"edit object", "drop stamp", "delete object",
	"replace bundle", "kill sidecar for long", "cut sidecar from etcd for long", "second sidecar with a node ID", "deny writes",
	"delete namespace", "restore etcd",
	"tenant", "change writes", "sidecar with another prefix", "delete CRD",
	"cut nodes from each other", "lose some packets between nodes", "lose the disk of a member",
	"power failure of all nodes", "kill service", "change the service of all nodes",
}

func (k faultKind) String() string { return faultNames[k] }

// fault is one fault of the schedule.
type fault struct {
	kind   faultKind
	node   int
	member int
	how    int // how a connection is cut, or how a kube-apiserver misbehaves
	object int
	lasts  time.Duration
	pause  time.Duration // before it
	slow   time.Duration
	nodes  int // how many there are
}

// nextFault returns the next fault.
func (p *plan) nextFault() fault {
	chances, total := p.shape.weights, 0
	for kind := range chances {
		if p.only != nil && !slices.Contains(p.only, faultNames[kind]) {
			chances[kind] = 0
		}
		total += chances[kind]
	}
	n, at := p.rng.IntN(total), 0
	for n >= chances[at] {
		n -= chances[at]
		at++
	}
	f := fault{
		kind: faultKind(at), node: p.rng.IntN(p.shape.nodes), member: p.rng.IntN(p.shape.members), how: p.rng.IntN(1 << 20),
		object: p.rng.IntN(len(keptObjects)), lasts: p.between(2, 9), pause: p.between(0, 3),
		slow: 20*time.Millisecond + p.between(0, 1)/2, nodes: p.shape.nodes,
	}
	if f.kind == cutStore || f.kind == slowStore {
		// A request that is held back here takes effect after its client gave up,
		// and can be held back again between etcd's members. Both delays together must
		// not exceed the limit of the protocol: 13 s after the next leader is confirmed
		// (docs/protocol-objects.md#stale-writes).
		f.lasts = (f.lasts * 2 / 3).Round(time.Millisecond)
	}
	return f
}
