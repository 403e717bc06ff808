package upgrade

import (
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/publish"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// Warnings returns a warning for each obstacle to the next upgrade that no node reports
// of itself: a node that is down reports nothing (docs/protocol.md#upgrade-ready). The upgrade
// itself is no obstacle here. own is the node that shows the warnings: it shows its own gate
// elsewhere.
func Warnings(f Facts, own protocol.NodeID) []protocol.Warning {
	if f.Fleet.Revision == 0 {
		return nil // the fleet was not read yet
	}
	var out []protocol.Warning
	for _, o := range obstacles(f.Status, f.fleet()) {
		if o.Reason == protocol.APIServerNotReady && refused(f.Fleet, o.Subject) {
			continue
		}
		if warnsOfFleet(o.Reason) || warnsOfNode(o.Reason) && o.Subject != string(own) {
			out = append(out, o)
		}
	}
	return out
}

// refused reports whether a node says itself that its kube-apiserver refuses its sidecar. Whether that is ready is not known.
func refused(f protocol.Fleet, node string) bool {
	r, _ := f.Record(protocol.NodeID(node))
	return slices.ContainsFunc(r.Presence.Warnings, func(w protocol.Warning) bool {
		return w.Subject == "" && w.Reason == protocol.APIRefused
	})
}

func warnsOfFleet(reason protocol.Reason) bool {
	return slices.Contains([]protocol.Reason{
		protocol.RecordCorrupt, protocol.RollingBack, warn.Outage,
		warn.NoLeader, warn.APIServersDiffer, warn.ServicesDiffer, publish.NotPublishing,
	}, reason)
}

func warnsOfNode(reason protocol.Reason) bool {
	return slices.Contains([]protocol.Reason{
		warn.NodeDead, warn.NoGate, protocol.Cordoned,
		warn.GateClosed, protocol.APIServerNotReady,
	}, reason)
}

// CurrentWarnings drops warnings of Warnings that are over: no obstacle that v and f show now is the
// same problem. Without a subject, a problem of a node is one that it reports of itself.
func CurrentWarnings(all []protocol.Warning, v protocol.StatusView, f protocol.Fleet) []protocol.Warning {
	if f.Revision == 0 || len(all) == 0 {
		return all
	}
	type problem struct {
		reason  protocol.Reason
		subject string
	}
	now := map[problem]bool{} // of a fleet of which thousands are dead, there are thousands
	for _, o := range obstacles(v, f) {
		now[problem{o.Reason, o.Subject}] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(w protocol.Warning) bool {
		return (warnsOfFleet(w.Reason) || warnsOfNode(w.Reason) && w.Subject != "") && !now[problem{w.Reason, w.Subject}]
	})
}

// ReportedWarnings returns at most MaxWarnings of a sidecar's warnings, for its presence. If
// there are more, it prefers warnings that other nodes judge by: upgradeReady must not be true
// because a warning that holds the upgrade was left out.
func ReportedWarnings(all []protocol.Warning) []protocol.Warning {
	if len(all) <= protocol.MaxWarnings {
		return all
	}
	first, rest := make([]protocol.Warning, 0, len(all)), []protocol.Warning(nil)
	for _, w := range all {
		if isJudged(w.Reason) {
			first = append(first, w)
		} else {
			rest = append(rest, w)
		}
	}
	return slices.Concat(first, rest)[:protocol.MaxWarnings]
}

// isJudged reports whether other nodes decide by a warning of this reason.
func isJudged(reason protocol.Reason) bool {
	return holdsUpgrade(reason) || slices.Contains([]protocol.Reason{
		warn.RemovalsHeld, warn.MemberDown, protocol.ReleaseTooOld, protocol.APIServerNotReady, protocol.APIRefused,
	}, reason)
}
