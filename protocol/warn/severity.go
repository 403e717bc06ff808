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

// BySeverity orders warnings: what is down now comes first. Warnings of one severity keep their order.
func BySeverity(warnings []protocol.Warning) []protocol.Warning {
	out := slices.Clone(warnings)
	slices.SortStableFunc(out, func(a, b protocol.Warning) int { return Compare(SeverityOf(a), SeverityOf(b)) })
	return out
}

// Compare compares two severities: the one that people read first is less.
func Compare(a, b Severity) int { return cmp.Compare(a.rank(), b.rank()) }

func (s Severity) rank() int {
	switch s {
	case Down:
		return 1
	case Note:
		return 3
	case Risk:
	}
	return 2
}
