package httpapi

import (
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// Cluster is the cluster's report, and facts about this node's member and the voters.
type Cluster struct {
	report.Cluster
	// Embedded: this node runs a member of etcd itself.
	Embedded bool
	// MemberProblem is why the member of this node cannot be used now; empty: it can.
	MemberProblem string
	// Voters are the members that vote.
	Voters []protocol.Voter
	// Removed are the members that people removed.
	Removed []protocol.MemberRemoval
}

// memberCheck shows the member of this node in /readyz. It never fails: this node
// reaches etcd through the other members too, and an etcd that does not answer
// closes no gate (docs/protocol-nodes.md#gate).
func memberCheck(c Cluster) check {
	out := check{Name: checkMember, OK: true}
	switch {
	case c.MemberProblem != "":
		out.Note = oneLine("the etcd member of this node cannot be used: " + c.MemberProblem)
	case c.Error != "":
		out.Note = oneLine("the etcd member of this node is not in use yet: " + c.Error)
	}
	return out
}
