package protocol

import (
	"cmp"
	"slices"
)

// Severity is how much a warning matters now. All lists of warnings are ordered by it.
type Severity string

// The severities, in the order of the lists.
const (
	// SeverityDown: something does not serve, or is not applied, now.
	SeverityDown Severity = "down"
	// SeverityRisk: the next event, or time alone, takes something down.
	SeverityRisk Severity = "risk"
	// SeverityNote: it is under way, or not as it should be, and takes nothing down.
	SeverityNote Severity = "note"
)

// Severity follows from the reason of a warning, and whether it is about one node.
func (w Warning) Severity() Severity {
	switch w.Reason { //nolint:exhaustive // all others are risks
	case Outage:
		if w.Subject == "" { // no node serves; otherwise only one does
			return SeverityDown
		}
	case NodeDead, MemberDown, NoLeader, NoGate, GateClosed, Cordoned, APIServerNotReady, ServiceFailing, ServiceNotReady,
		APIUnreachable, APIRefused, EtcdUnreachable, EtcdFull, OtherStore, ReconcilerRuns, OtherWriter, DuplicateNodeID,
		ObjectFailed, StatusCorrupt:
		return SeverityDown
	case BundlesDiffer, APIServersDiffer, ServicesDiffer, BundleWaits, CordonOver, OptionalServiceFailing, RollingBack,
		TurnUnderWay, UpgradeUnderWay, WorkerFailed:
		return SeverityNote
	}
	return SeverityRisk
}

// BySeverity orders warnings: what is down now comes first. Warnings of one severity keep their order.
func BySeverity(warnings []Warning) []Warning {
	out := slices.Clone(warnings)
	slices.SortStableFunc(out, func(a, b Warning) int { return CompareSeverity(a.Severity(), b.Severity()) })
	return out
}

// CompareSeverity compares two severities: the one that people read first is less.
func CompareSeverity(a, b Severity) int { return cmp.Compare(a.rank(), b.rank()) }

func (s Severity) rank() int {
	switch s {
	case SeverityDown:
		return 1
	case SeverityNote:
		return 3
	case SeverityRisk:
	}
	return 2
}
