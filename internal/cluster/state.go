package cluster

import "slices"

// State is the progress of a sidecar on the way into its cluster.
type State string

// The states. New is the first, Running and Failed are the last.
const (
	New State = "New"
	// ConnectingExternal: etcd runs elsewhere, and did not answer yet.
	ConnectingExternal State = "ConnectingExternal"
	// CreatingCluster: this node makes a cluster whose only member it is.
	CreatingCluster State = "CreatingCluster"
	// JoiningCluster: a member of another node is asked to add this one.
	JoiningCluster State = "JoiningCluster"
	// RestartingMember: the member of this data directory is started, and waits for
	// a majority.
	RestartingMember State = "RestartingMember"
	// Running: the cluster can be used. It stays so while etcd is unreachable later.
	Running State = "Running"
	// Failed: the sidecar cannot reach its cluster without a person, and ends.
	Failed State = "Failed"
)

// States returns all states, in their order.
func States() []State {
	return []State{New, ConnectingExternal, CreatingCluster, JoiningCluster, RestartingMember, Running, Failed}
}

// transitions lists every allowed change of the state. A join that was interrupted
// is run again from its first step.
var transitions = map[State][]State{
	New:                {ConnectingExternal, CreatingCluster, JoiningCluster, RestartingMember},
	ConnectingExternal: {Running, Failed},
	CreatingCluster:    {Running, Failed},
	JoiningCluster:     {JoiningCluster, Running, Failed},
	RestartingMember:   {Running, Failed},
}

// Allowed reports whether the state may change so. No change leaves Running or
// Failed.
func Allowed(from, to State) bool { return slices.Contains(transitions[from], to) }

// Final reports whether no other state follows.
func (s State) Final() bool { return s == Running || s == Failed }
