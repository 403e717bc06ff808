package member

// Event is an event of a member.
type Event string

// The events that a child reports.
const (
	// Started: the server runs. Without a quorum it may stay so.
	Started Event = "started"
	// Ready: the member is part of a quorum, and serves.
	Ready Event = "ready"
	// Removed: the cluster removed the member. It never serves again.
	Removed Event = "removed"
	// Failed: the server did not start, or stopped by itself. Problem says why.
	Failed Event = "failed"
	// Again: the learner lost the message by which it becomes ready. A new process asks
	// again at once, which etcd does by itself after seven seconds (Spec.Patience).
	Again Event = "again"
	// Measured: Measures contains the newest measures of etcd.
	Measured Event = "measured"
)

// MembersChanged is the Problem of a child that finds other members in the cluster than in its spec. The node that
// joins asks for them again.
const MembersChanged = "the members of the cluster changed while it started: another node joins or leaves; they are asked for again"

// Message is a message of a child on its standard output, one line of JSON each.
type Message struct {
	Event     Event  `json:"event"`
	MemberID  uint64 `json:"memberID,omitempty,string"`
	ClusterID uint64 `json:"clusterID,omitempty,string"`
	Problem   string `json:"problem,omitempty"`
	// Measures is set with Measured.
	Measures *Measures `json:"measures,omitempty"`
}

// Exit codes of a child. A panic exits with 2.
const (
	ExitStopped = 0
	ExitFailed  = 1
	ExitRemoved = 4
	ExitAgain   = 5
)

// LockFD is the file descriptor of the lock in the child.
const LockFD = 3
