package cluster

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
