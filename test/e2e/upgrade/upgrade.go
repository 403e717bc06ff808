// Package upgrade takes a control plane of three nodes through two rolling upgrades,
// and one node back to a release that is too old. It fakes nothing, and checks after
// every step what must be true. The end-to-end test and `make demo` run the same walk:
// Steps has the steps and their claims, Walk executes them, Check checks the claims.
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
//	                         was upgraded (docs/protocol.md#removals).
//	1.2.0  M 1.1.0, A 1.2.0  The new objects would not admit nodes of 1.1.0. So WaitForNodes
//	                         waits until each of them is upgraded. Meanwhile nodes of 1.2.0
//	                         are ready, because M allows the objects of 1.1.0.
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
}

// Want is the state in which a step ends.
type Want struct {
	Status   string   // state, version and minimum, as in "DONE 1.0.0 min 0.9.0"
	Blockers []string // nodes that block the leader
	Objects  string   // release of the bundle whose objects the API has
	Owed     string   // object of the previous release that was not deleted yet; empty: none
	KeptOut  string   // node that is not ready because its release is too old; empty: none
}

// Leader is the node that leads at the end of every step. The first node that is
// upgraded leads from then on, because no other node has a newer release.
const Leader = nodeA

// Steps is the walk.
func Steps() []Step {
	const (
		done10 = "DONE 1.0.0 min 0.9.0"
		done11 = "DONE 1.1.0 min 1.0.0"
		done12 = "DONE 1.2.0 min 1.2.0"
		legacy = "RuntimeClass platform-legacy"
	)
	return []Step{
		{"start all nodes with 1.0.0", "1.0.0", "",
			"the first node becomes ready only when all objects exist",
			Want{Status: done10, Objects: "1.0.0"}},

		{"upgrade a to 1.1.0", "1.1.0", nodeA,
			"the newest release leads at once; the old nodes fit the new objects and stay ready",
			Want{Status: done11, Objects: "1.1.0", Owed: legacy}},
		{"upgrade b to 1.1.0", "1.1.0", nodeB,
			"the leader waits for the last node before it deletes anything",
			Want{Status: done11, Objects: "1.1.0", Owed: legacy}},
		{"upgrade c to 1.1.0", "1.1.0", nodeC,
			"no node of 1.0.0 is left: the leader deletes the object that 1.1.0 dropped",
			Want{Status: done11, Objects: "1.1.0"}},

		{"upgrade a to 1.2.0", "1.2.0", nodeA,
			"the new objects would not admit b and c: the leader waits, and all nodes stay ready",
			Want{Status: done11, Blockers: []string{nodeB, nodeC}, Objects: "1.1.0"}},
		{"upgrade b to 1.2.0", "1.2.0", nodeB,
			"only c blocks now",
			Want{Status: done11, Blockers: []string{nodeC}, Objects: "1.1.0"}},
		{"upgrade c to 1.2.0", "1.2.0", nodeC,
			"the last old node is upgraded: the leader raises the minimum, then changes the objects",
			Want{Status: done12, Objects: "1.2.0"}},

		{"take c back to 1.1.0", "1.1.0", nodeC,
			"c is too old for the objects: it does not become ready, and changes nothing",
			Want{Status: done12, Objects: "1.2.0", KeptOut: nodeC}},
		{"upgrade c again", "1.2.0", nodeC,
			"c is ready again",
			Want{Status: done12, Objects: "1.2.0"}},
	}
}

// statusHistory is every status that etcd may ever have, in order.
func statusHistory() []string {
	return []string{
		"DONE 1.0.0 min 0.9.0",
		"WORKING 1.0.0 min 1.0.0", // restricted to what fits before and after
		"DONE 1.1.0 min 1.0.0",
		"WORKING 1.1.0 min 1.2.0",
		"DONE 1.2.0 min 1.2.0",
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
