package show

import (
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// This file reports a node whose member waits for long on its way into etcd, or out of it. Only its own sidecar knows
// why.

// memberStays begins the warning of a sidecar whose member is leaving, and cannot.
const memberStays = "its etcd member is leaving, and waits: "

// stuck returns the warning about this node's own member; none if nothing waits, or not for long.
func stuck(now time.Time, s cluster.Status, phase membership.Phase) []protocol.Warning {
	if s.State != cluster.Running || s.StuckSince.IsZero() || now.Sub(s.StuckSince) < interruptedAfter {
		return nil
	}
	switch phase {
	case membership.Leaving:
		return []protocol.Warning{{Reason: warn.RemovalInterrupted, Message: memberStays + s.Problem, Since: s.StuckSince}}
	case membership.Adding:
		return []protocol.Warning{{
			Reason: warn.MemberDown, Since: s.StuckSince,
			Message: "it has the role " + protocol.RoleConsensus + ", and is not a member of etcd yet: " + s.Problem,
		}}
	default:
		return nil
	}
}
