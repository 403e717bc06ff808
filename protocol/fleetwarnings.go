package protocol

import "slices"

// FleetWarnings returns a warning for each obstacle to the next upgrade that no node reports
// of itself: a node that is down reports nothing (docs/protocol.md#upgrade-ready). The upgrade
// itself is no obstacle here. own is the node that shows the warnings: it shows its own gate
// elsewhere.
func FleetWarnings(f UpgradeFacts, own NodeID) []Warning {
	if f.Fleet.Revision == 0 {
		return nil // the fleet was not read yet
	}
	var out []Warning
	for _, o := range upgradeObstacles(f.Status, withVoters(f.Fleet, f.Voters)) {
		if warnsOfFleet(o.Reason) || warnsOfNode(o.Reason) && o.Subject != string(own) {
			out = append(out, o)
		}
	}
	return out
}

func warnsOfFleet(reason Reason) bool {
	return slices.Contains([]Reason{RecordCorrupt, RollingBack, Outage, NoLeader, APIServersDiffer, ServicesDiffer}, reason)
}

func warnsOfNode(reason Reason) bool {
	return slices.Contains([]Reason{NodeDead, NoGate, Cordoned, GateClosed, APIServerNotReady}, reason)
}

// CurrentWarnings returns warnings without those of FleetWarnings that are over: no obstacle that v and f show now is the
// same problem. Without a subject, a problem of a node is one that it reports of itself.
func CurrentWarnings(all []Warning, v StatusView, f Fleet) []Warning {
	if f.Revision == 0 || len(all) == 0 {
		return all
	}
	now := upgradeObstacles(v, f)
	return slices.DeleteFunc(slices.Clone(all), func(w Warning) bool {
		same := func(o Warning) bool { return o.Reason == w.Reason && o.Subject == w.Subject }
		return (warnsOfFleet(w.Reason) || warnsOfNode(w.Reason) && w.Subject != "") && !slices.ContainsFunc(now, same)
	})
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
