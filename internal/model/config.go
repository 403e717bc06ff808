package model

import (
	"fmt"
	"strings"
)

// Config is a world to search: its size, its releases and its rules.
type Config struct {
	Nodes    int // at most maxNodes
	Releases int
	Builds   int // builds of each release; their bundles differ in the digest
	// M and A are the constraints of the releases: M[0] belongs to release 1.
	M, A []int

	Faults  int // how many faults may happen
	Changes int // how often a node may start with a content that its record does not name
	Objects []shape
	Start   start

	Off safeguard // the safeguards that are turned off
	// OffRollback are the rules of rollbacks that are turned off.
	OffRollback rollbackSafeguard
	Only        []string // names of the invariants to check; empty: all

	// Policy: the admission policy for content epochs is installed. Without it,
	// only UID and resourceVersion protect an object.
	Policy bool
	// LooseClock: a leader continues to send requests after its lease expired,
	// like one that was paused between the check of its clock and the request.
	LooseClock bool
	// Restamp is a proposal: an object whose stamp is below the content epoch of
	// another entry of the mark is written again. Then no request of that other
	// content fits the object any more, however late it lands.
	Restamp bool
	// BothLost: the status and the set's parent may be missing at the same time.
	// Without it, one can only be lost while the other exists.
	BothLost bool
	// Expire: every record has an expiry time (docs/protocol-nodes.md#dead-nodes).
	Expire bool
	// Ephemeral: every record is ephemeral (docs/protocol-nodes.md#ephemeral). It needs Expire.
	Ephemeral bool
	// Roles: administrators take the controller role from nodes, and give it back.
	Roles bool
	// Stores: a leader of another store writes to the same API, content of the last
	// release.
	Stores bool
	// Names: the first two builds of a release are of two bundles with different names.
	// With two builds, people let one replace the other. A third build is run by a program
	// that does not know names.
	Names bool
	// Reload: a sidecar that runs replaces its bundle by another build of its release.
	Reload bool
	// Strangers: users of the API put content epochs on objects, and create objects
	// with the set's label.
	Strangers bool
	// Withdraw: the kube-apiserver of a node fails, and the node's sidecar withdraws.
	Withdraw bool
	// Keep: a leader that keeps the target repairs single objects, and the mark,
	// between two passes. Without it, each repair is a pass.
	Keep bool
	// Immediately: all bundles have prunePolicy: Immediately.
	Immediately bool
	// Services: each node runs services, which its sidecar starts and stops.
	Services bool
	// Failing: services may never become ready, and another program may run in their place. It needs
	// Services.
	Failing bool
	// Deployed: the kube-apiserver of a node is deployed after its sidecar. Not together with
	// Services.
	Deployed bool
	// Publishes: the sidecars write the Service kubernetes. It needs Services.
	Publishes bool
	// Cordons: administrators take nodes out of service, and return them.
	Cordons bool
	// Rollbacks: administrators bring the objects of an older release back.
	Rollbacks bool
	// Ways: from each state, progress also follows all runs after administrators have started every
	// node with one release.
	Ways bool
	// Deaths: the only faults are nodes that die, and restores.
	Deaths bool
	// KeysLeft: the candidate's key of a sidecar that runs may be left in etcd.
	KeysLeft bool
	// Restore: etcd is restored from a backup.
	Restore restore
	// Unnoticed: a sidecar may notice a restore late.
	Unnoticed bool
	// Coarse joins moves that no other process can tell apart: a node starts and
	// registers; a leader is elected and observes; it begins a pass and lists;
	// gates read a status as soon as it is written.
	Coarse bool
}

// shape says how an object differs between contents.
type shape uint8

// The shapes of objects.
const (
	sameForm    shape = iota // the same in every content, so it keeps its first stamp
	changedForm              // different in each content
	// recreatedForm is different in each content, and cannot be changed: it is deleted
	// and created again.
	recreatedForm
	// droppedForm is different in each content of release 1. Later releases do not
	// contain the object.
	droppedForm
	// addedForm is different in each content, and release 1 does not contain the object.
	addedForm
)

// restore selects the data that a restore brings back.
type restore uint8

// The restores.
const (
	restoreNothing restore = iota
	// restoreAll: Lockstep and the API use one etcd.
	restoreAll
	// restoreStore: the API uses an etcd of its own, which stays as it is.
	restoreStore
)

// start is the state that a search begins with.
type start uint8

// The starts.
const (
	// newCluster: etcd and the API are empty, and no node runs.
	newCluster start = iota
	// settled: every node serves on release 1, its objects are in place, and
	// one node leads.
	settled
	// upgraded: the same on the last release.
	upgraded
)

// String says how a story begins.
func (s start) String() string {
	switch s {
	case newCluster:
		return "from a new cluster"
	case upgraded:
		return "from an upgraded cluster"
	case settled:
	}
	return "from a settled cluster"
}

// A state holds this many at most. The search does not follow a move that needs more, and
// Result.Unfollowed counts it: an exhaustive search with such a move fails.
const (
	maxNodes   = 7
	maxLeaders = 2  // that believe they lead at the same time
	maxOrphans = 8  // requests whose sender no longer waits for them
	maxEntries = 10 // of a mark
	maxObjects = 3
)

// String names the configuration.
func (c *Config) String() string {
	return fmt.Sprintf("%s, %s, M=%s A=%s, %s, %s",
		plural(c.Nodes, "node"), plural(c.Releases, "release"), join(c.M), join(c.A), plural(c.Faults, "fault"), c.Start)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func join(releases []int) string {
	var parts []string
	for _, r := range releases {
		parts = append(parts, fmt.Sprint(r))
	}
	return strings.Join(parts, ",")
}

// constraints returns all values of M and A that are valid in bundles: neither falls
// from one release to the next, and neither is above its release.
func constraints(releases int) (pairs [][2][]int) {
	all := monotone(releases)
	for _, m := range all {
		for _, a := range all {
			pairs = append(pairs, [2][]int{m, a})
		}
	}
	return pairs
}

// monotone returns all sequences, one number for each release, that never fall and
// never exceed the release.
func monotone(releases int) [][]int {
	if releases == 1 {
		return [][]int{{1}}
	}
	var out [][]int
	for _, shorter := range monotone(releases - 1) {
		for r := shorter[len(shorter)-1]; r <= releases; r++ {
			out = append(out, append(append([]int{}, shorter...), r))
		}
	}
	return out
}
