package table

import (
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// The cells of the table FLEET that show since when, and who.

// nodeGate reports whether a node serves, as it last reported, and if not, the reason, since when, and who caused
// it.
func (t Status) nodeGate(n report.FleetNode) string {
	switch {
	case n.Problem != "":
		return "record corrupt"
	case n.Ready && n.Reason == string(protocol.Overridden) && (n.Serves || n.ServesReason == ""):
		return n.Reason
	case n.Ready && (n.Serves || n.ServesReason == ""): // an older sidecar does not report whether it serves
		return "ready"
	case n.Cordon != nil && (!n.Alive || n.Reason == string(protocol.Cordoned)): // it stays when the sidecar is back
		return string(protocol.Cordoned) + t.since(n.Cordon.Since) + ByWhom(n.Cordon.By)
	case n.Ready:
		return n.ServesReason + t.since(n.ServesSince)
	case n.Reason == "":
		return ""
	}
	return n.Reason + t.since(n.ServesSince)
}

func (t Status) alive(n report.FleetNode) string {
	if n.Alive {
		return "yes"
	}
	if n.AliveSince.IsZero() {
		return "no"
	}
	return "no, for " + t.age(n.AliveSince)
}

// ephemeral reports whether and when the record of a node is deleted.
func (t Status) ephemeral(n report.FleetNode) string {
	left := n.ExpiresAt.Sub(t.Now).Round(time.Second)
	switch {
	case !n.Ephemeral || n.ExpiresAt.IsZero():
	case left > 0:
		return "deleted in " + terminal.Duration(left)
	default:
		return "expired" // it is about to be deleted, unless its node has a turn
	}
	return EphemeralText(n.Record)
}
