// Package upgrade walks a control plane of three nodes through two rolling
// upgrades and a node that comes back too old, with nothing faked, and says
// after every step what has to hold. The
// end-to-end test and `make demo` drive the same walk: Steps has what happens
// and what is claimed, Walk carries it out, Check holds it to the claims.
//
// A node here is a kube-apiserver and a sidecar of one release; upgrading it
// means to stop both and to start both with the next release's bundle. The
// bundles are in bundles/. Why each step ends as it does follows from DESIGN 4.5
// and 6.3:
//
//	1.0.0     M 0.9.0, A 0.9.0  the first status is written when all objects are there
//	1.1.0     M 1.0.0, A 1.0.0  nobody registered is below 1.0.0: WaitForNodes restricts at once
//	                            and ApplyContent follows, as soon as one node of 1.1.0 leads. What
//	                            the bundle dropped goes when the last node has moved.
//	1.2.0     M 1.1.0, A 1.2.0  the status admits nodes of 1.1.0 and may no longer: WaitForNodes
//	                            waits for each of them. Meanwhile nodes of 1.2.0 are ready,
//	                            for the objects of 1.1.0 are enough for them.
//
// Goroutines run while Walk.Run does, and end with it.
package upgrade

import "strings"

// The nodes of the walk, in the order in which they are upgraded.
const (
	nodeA = "a"
	nodeB = "b"
	nodeC = "c"
)

// NodeCount is how many nodes walk.
const NodeCount = 3

// Step is one thing that people do to the control plane, and what it has to
// come to.
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
	Blockers []string // nodes that hold the leader back
	Objects  string   // release whose bundle the API shows
	Owed     string   // object that the release before had and that is still there; empty: none
	KeptOut  string   // the node that is not ready, as its release is too old; empty: all are
}

// Leader is the node that leads at the end of every step: the first one
// upgraded leads from then on, as nobody is of a newer release.
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
			"the first node becomes ready only when all objects are there",
			Want{Status: done10, Objects: "1.0.0"}},

		{"upgrade a to 1.1.0", "1.1.0", nodeA,
			"the newest release leads at once; the old nodes fit the new objects and stay ready",
			Want{Status: done11, Objects: "1.1.0", Owed: legacy}},
		{"upgrade b to 1.1.0", "1.1.0", nodeB,
			"nothing is left to do but to wait for the last node before anything is removed",
			Want{Status: done11, Objects: "1.1.0", Owed: legacy}},
		{"upgrade c to 1.1.0", "1.1.0", nodeC,
			"nobody of 1.0.0 is left: what 1.1.0 dropped is removed",
			Want{Status: done11, Objects: "1.1.0"}},

		{"upgrade a to 1.2.0", "1.2.0", nodeA,
			"the new objects would shut b and c out: the leader waits, and everybody serves",
			Want{Status: done11, Blockers: []string{nodeB, nodeC}, Objects: "1.1.0"}},
		{"upgrade b to 1.2.0", "1.2.0", nodeB,
			"c alone blocks now",
			Want{Status: done11, Blockers: []string{nodeC}, Objects: "1.1.0"}},
		{"upgrade c to 1.2.0", "1.2.0", nodeC,
			"the last old node is upgraded: the minimum is raised, then the objects change",
			Want{Status: done12, Objects: "1.2.0"}},

		{"take c back to 1.1.0", "1.1.0", nodeC,
			"a node that the objects have left behind is kept out, and changes nothing",
			Want{Status: done12, Objects: "1.2.0", KeptOut: nodeC}},
		{"upgrade c again", "1.2.0", nodeC,
			"it serves again",
			Want{Status: done12, Objects: "1.2.0"}},
	}
}

// statusHistory is every status that may ever stand in etcd, in order.
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
