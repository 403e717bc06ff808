// Package upgrade takes a control plane of three nodes through two rolling upgrades, and
// then back from the second one, with clients all the time. It fakes nothing, and checks claims
// after every step. The end-to-end test and `make demo` run the same walk: Steps lists the steps
// and their claims, Walk executes them, Check checks the claims.
//
// A node here is a sidecar that runs a member of etcd and a kube-apiserver (command.go). To
// upgrade it, the walk stops the sidecar, and starts it with the next release's bundle and
// services. Or all nodes share an etcd, and a node is a kube-apiserver and a sidecar: then
// the walk starts and stops both. The bundles are in bundles/. Each step ends as the leader's rules say (docs/protocol.md#leader-rules):
//
//	1.0.0  M 0.9.0, A 0.9.0  FirstReconciliation: the first status is written when all
//	                         objects exist.
//	1.1.0  M 1.0.0, A 1.0.0  No node is below 1.0.0. So WaitForNodes restricts the status
//	                         as soon as a node of 1.1.0 leads, and ApplyContent follows. The
//	                         objects that 1.1.0 dropped are deleted after the last node
//	                         was upgraded (docs/protocol-objects.md#removals).
//	1.2.0  M 1.1.0, A 1.2.0  The new objects would not admit nodes of 1.1.0. So WaitForNodes
//	                         waits until each of them is upgraded. Meanwhile nodes of 1.2.0
//	                         are ready, because M allows the objects of 1.1.0.
//
// The way back is a rollback (docs/protocol-objects.md#rollback): for the same reason, nodes of 1.2.0
// go on serving when a node of 1.1.0 brings its objects back.
//
// Goroutines run only inside Walk.Run, which waits for them.
package upgrade

import "strings"

// The nodes of the walk, in the order in which they are upgraded.
const (
	nodeA = "a"
	nodeB = "b"
	nodeC = "c"
)

// NodeCount is the number of nodes.
const NodeCount = 3

// Step is something that users do to the control plane, and how it must end.
type Step struct {
	Name    string // in a few words
	Release string
	Node    string // that is stopped and started with Release; empty: all are started for the first time
	Why     string // what the step shows, in one sentence
	Want    Want
	// Rollback: Node is not stopped. People type there that they want the objects of Release back.
	Rollback bool
	// Kill: all that runs on Node is killed once it leads with Release, and started again.
	// Clients may notice that.
	Kill bool
}

// Want is the state in which a step ends.
type Want struct {
	Status   string   // state, version and minimum, as in "DONE 1.0.0 min 0.9.0"
	Blockers []string // nodes that block the leader
	Objects  string   // release of the bundle whose objects are in the API
	Owed     string   // object of the previous release that was not deleted yet; empty: none
	Leader   string   // empty: Leader
}

// Leader is the node that leads at the end of most steps. The first node that is
// upgraded leads from then on, because no other node is of a newer release.
const Leader = nodeA

// NoLeader is Want.Leader where no node may lead.
const NoLeader = "none"

// Steps is the walk.
func Steps() []Step {
	const (
		done10 = "DONE 1.0.0 min 0.9.0"
		done11 = "DONE 1.1.0 min 1.0.0"
		done12 = "DONE 1.2.0 min 1.2.0"
		legacy = "RuntimeClass platform-legacy"
	)
	return []Step{
		{Name: "start all nodes with 1.0.0", Release: "1.0.0",
			Why:  "the first node becomes ready only when all objects exist",
			Want: Want{Status: done10, Objects: "1.0.0"}},

		{Name: "upgrade a to 1.1.0", Release: "1.1.0", Node: nodeA,
			Why:  "the newest release leads at once; the old nodes fit the new objects and stay ready",
			Want: Want{Status: done11, Objects: "1.1.0", Owed: legacy}},
		{Name: "upgrade b to 1.1.0", Release: "1.1.0", Node: nodeB,
			Why:  "the leader waits for the last node before it deletes anything",
			Want: Want{Status: done11, Objects: "1.1.0", Owed: legacy}},
		{Name: "upgrade c to 1.1.0", Release: "1.1.0", Node: nodeC,
			Why:  "no node of 1.0.0 is left: the leader deletes the object that 1.1.0 dropped",
			Want: Want{Status: done11, Objects: "1.1.0"}},

		{Name: "upgrade a to 1.2.0", Release: "1.2.0", Node: nodeA,
			Why:  "the new objects would not admit b and c: the leader waits, and all nodes stay ready",
			Want: Want{Status: done11, Blockers: []string{nodeB, nodeC}, Objects: "1.1.0"}},
		{Name: "upgrade b to 1.2.0", Release: "1.2.0", Node: nodeB,
			Why:  "only c blocks now",
			Want: Want{Status: done11, Blockers: []string{nodeC}, Objects: "1.1.0"}},
		{Name: "upgrade c to 1.2.0", Release: "1.2.0", Node: nodeC,
			Why:  "the last old node is upgraded: the leader raises the minimum, then changes the objects",
			Want: Want{Status: done12, Objects: "1.2.0"}},

		{Name: "say that 1.1.0 is wanted", Release: "1.1.0", Node: nodeC, Rollback: true,
			Why:  "no node leads until one of 1.1.0 starts; all of them go on serving",
			Want: Want{Status: done12, Objects: "1.2.0", Leader: NoLeader}},
		{Name: "take c back to 1.1.0", Release: "1.1.0", Node: nodeC,
			Why:  "c leads, and brings the objects back: a and b fit them, and stay ready; so does c",
			Want: Want{Status: done11, Objects: "1.1.0", Leader: nodeC}},
		{Name: "take b back to 1.1.0", Release: "1.1.0", Node: nodeB,
			Why:  "the others serve meanwhile",
			Want: Want{Status: done11, Objects: "1.1.0", Leader: nodeC}},
		{Name: "take a back to 1.1.0", Release: "1.1.0", Node: nodeA,
			Why:  "all nodes are back, and no request of a client has failed",
			Want: Want{Status: done11, Objects: "1.1.0", Leader: nodeC}},
	}
}

// wayBack is the release to which the walk goes back at its end.
const wayBack = "1.1.0"

// statusHistory returns every status that etcd may ever contain, in order.
func statusHistory() []string {
	return []string{
		"DONE 1.0.0 min 0.9.0",
		"WORKING 1.0.0 min 1.0.0", // restricted to nodes that fit before and after
		"DONE 1.1.0 min 1.0.0",
		"WORKING 1.1.0 min 1.2.0",
		"DONE 1.2.0 min 1.2.0",
		"WORKING 1.1.0 min 1.2.0", // the way back
		"DONE 1.1.0 min 1.0.0",
	}
}

// list joins names for people: "a, b and c".
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
