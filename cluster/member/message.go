package member

import "github.com/lockstep-dev/lockstep/protocol"

// Event is what happened to a member.
type Event string

// What a child reports.
const (
	// Started: the server runs. Without a quorum it may stay so.
	Started Event = "started"
	// Ready: the member is part of a quorum, and serves.
	Ready Event = "ready"
	// Removed: the cluster has removed the member. It never serves again.
	Removed Event = "removed"
	// Failed: the server did not start, or stopped by itself. Problem says why.
	Failed Event = "failed"
	// Again: the learner has lost the message by which it becomes ready. It does at once
	// in a new process what etcd does after seven seconds (Spec.Patience).
	Again Event = "again"
	// Measured: Measures has what etcd has measured of itself.
	Measured Event = "measured"
)

// Message is what a child writes to its standard output, one line of JSON each.
type Message struct {
	Event     Event  `json:"event"`
	MemberID  uint64 `json:"memberID,omitempty,string"`
	ClusterID uint64 `json:"clusterID,omitempty,string"`
	Problem   string `json:"problem,omitempty"`
	// Measures is set with Measured.
	Measures *protocol.Measures `json:"measures,omitempty"`
}

// Exit codes of a child. 2 is that of a panic.
const (
	ExitStopped = 0
	ExitFailed  = 1
	ExitRemoved = 4
	ExitAgain   = 5
)

// LockFD is the file descriptor of the lock in the child.
const LockFD = 3
