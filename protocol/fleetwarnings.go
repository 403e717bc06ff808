package protocol

import "slices"

// FleetWarnings returns a warning for each obstacle to the next upgrade that no node reports
// of itself: a node that is down reports nothing (docs/protocol.md#upgrade-ready). The upgrade
// itself is no obstacle here. own is the node that shows the warnings: it shows its own gate
// elsewhere.
func FleetWarnings(v StatusView, f Fleet, own NodeID) []Warning {
	if f.Revision == 0 {
		return nil // the fleet was not read yet
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

// ReportedWarnings returns at most MaxWarnings of a sidecar's warnings, for its presence. If
// there are more, it prefers warnings that other nodes judge by: upgradeReady must not be true
// because a warning that holds the upgrade was left out.
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

// isJudged reports whether other nodes decide by a warning of this reason.
func isJudged(reason Reason) bool {
	switch reason {
	case RemovalsHeld, MemberDown, ReleaseTooOld, APIServerNotReady, APIRefused:
		return true
	default:
		return holdsUpgrade(reason)
	}
}
