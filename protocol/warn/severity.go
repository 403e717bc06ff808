package warn

import (
	"cmp"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Severity is how much a warning matters now. All lists of warnings are ordered by it.
type Severity string

// The severities, in the order of the lists.
const (
	// Down: something does not serve, or is not applied, now.
	Down Severity = "down"
	// Risk: the next event, or time alone, takes something down.
	Risk Severity = "risk"
	// Note: it is under way, or not as it should be, and takes nothing down.
	Note Severity = "note"
)

// SeverityOf decides by the reason of a warning, and whether it is about one node.
func SeverityOf(w protocol.Warning) Severity {
	switch w.Reason { //nolint:exhaustive // all others are risks
	case Outage:
		if w.Subject == "" { // no node serves; otherwise only one does
			return Down
		}
	case NodeDead, MemberDown, NoLeader, NoGate, GateClosed, EtcdUnreachable, EtcdFull, ObjectFailed,
		protocol.Cordoned, protocol.APIServerNotReady, protocol.ServiceFailing, protocol.ServiceNotReady,
		protocol.APIUnreachable, protocol.APIRefused, protocol.DuplicateNodeID, protocol.StatusCorrupt,
		protocol.OtherStore, protocol.ReconcilerRuns, protocol.OtherWriter:
		return Down
	case BundlesDiffer, APIServersDiffer, ServicesDiffer, BundleWaits, CordonOver, OptionalServiceFailing, protocol.RollingBack,
		TurnUnderWay, UpgradeUnderWay, WorkerFailed:
		return Note
	}
	return Risk
}

// BySeverity orders warnings: what is down now comes first, and of one severity the causes come before what follows from
// them. Otherwise they keep their order.
func BySeverity(warnings []protocol.Warning) []protocol.Warning {
	out := slices.Clone(warnings)
	slices.SortStableFunc(out, func(a, b protocol.Warning) int { return cmp.Compare(Rank(a), Rank(b)) })
	return out
}

// Rank is the place of a warning in the lists: people read the lowest first.
func Rank(w protocol.Warning) int {
	rank := SeverityOf(w).Rank()
	if w.Reason == NoLeader || w.Reason == Outage { // the warnings of nodes say why
		rank++
	}
	return rank
}

// Rank is the least Rank of a warning of this severity.
func (s Severity) Rank() int {
	switch s {
	case Down:
		return 0
	case Note:
		return 4
	case Risk:
	}
	return 2
}
