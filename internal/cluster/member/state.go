package member

import (
	"errors"
	"time"
)

// ErrRemoved ends a member that its cluster removed.
var ErrRemoved = errors.New("the cluster has removed this etcd member")

// ErrOldCopy ends a member whose log misses entries that it acknowledged. It would end so
// each time.
var ErrOldCopy = errors.New("the log of this etcd member misses entries that it had acknowledged")

// State describes a member's process.
type State struct {
	Running  bool // the process runs
	Ready    bool // the member was part of a quorum since the process started
	PID      int  // 0: no process
	Restarts int  // how often it was started again
	// LastExit is why the process ended last, for people; empty: it never did.
	LastExit string
	Since    time.Time // of the last change of Running, Ready or LastExit
	// MemberID and ClusterID are etcd's; 0: not known yet.
	MemberID, ClusterID uint64
}
