package protocol

import "slices"

// FleetWarnings returns a warning for each obstacle of the next upgrade that is not the
// upgrade itself, and that no node reports of itself: a node that is down says nothing
// (docs/protocol.md#upgrade-ready). own is the node that shows them: its gate has a place of
// its own there.
func FleetWarnings(v StatusView, f Fleet, own NodeID) []Warning {
	if f.Revision == 0 {
		return nil // it was not read yet
	}
	var out []Warning
	for _, o := range UpgradeObstacles(v, f) {
		switch o.Reason {
		case RecordCorrupt, RollingBack, Outage, NoLeader, APIServersDiffer, ServicesDiffer:
		case NodeDead, NoGate, Cordoned, GateClosed, APIServerNotReady:
			if o.Node == own {
				continue
			}
		default:
			continue
		}
		out = append(out, Warning{Reason: o.Reason, Subject: string(o.Node), Message: o.Message})
	}
	return out
}

// ReportedWarnings returns those of a sidecar's warnings that its presence has room for. If
// there are too many, those come first by which other nodes judge: upgradeReady must not be
// true because a warning that holds the upgrade was left out.
func ReportedWarnings(all []Warning) []Warning {
	if len(all) <= MaxWarnings {
		return all
	}
	first, rest := make([]Warning, 0, len(all)), []Warning(nil)
	for _, w := range all {
		if isJudged(w.Reason) {
			first = append(first, w)
		} else {
			rest = append(rest, w)
		}
	}
	return slices.Concat(first, rest)[:MaxWarnings]
}

// isJudged reports whether other nodes conclude something from a warning of this reason.
func isJudged(reason Reason) bool {
	switch reason {
	case RemovalsHeld, MemberDown, ReleaseTooOld, APIServerNotReady, APIRefused:
		return true
	default:
		return holdsUpgrade(reason)
	}
}
