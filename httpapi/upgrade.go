package httpapi

import (
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
	"github.com/lockstep-dev/lockstep/report"
)

// UpgradeReady reports whether the next upgrade may start, as upgradeReady in /status.
func UpgradeReady(s Snapshot) bool { return judgeUpgrade(s.current()).Ready() }

func judgeUpgrade(s Snapshot) upgrade.Answer {
	fleet := protocol.WithMayRestart(s.Fleet, func(id protocol.NodeID) bool { return s.Sightings[id].MayRestart })
	return upgrade.Judge(upgrade.Facts{
		Unreachable: !s.Etcd.Connected, Full: s.Etcd.Full, Status: s.Status, Fleet: fleet,
		Voters: s.Cluster.Voters, Removed: s.Cluster.Removed,
		Overdue: s.Warnings,
	})
}

// UpgradeObstacles renders why the next upgrade must not start. The flags of etcd, with a leading space, are added to the
// commands in the messages.
func UpgradeObstacles(a upgrade.Answer, flags string) (out report.List[report.Obstacle]) {
	for _, o := range a.Obstacles {
		out = append(out, report.Obstacle{Reason: string(o.Reason), Node: o.Subject, Message: Pasteable(o.Message, flags)})
	}
	return out
}

// UpgradeNotes renders the costs of an upgrade in a fleet of this size.
func UpgradeNotes(a upgrade.Answer, flags string) (out report.List[string]) {
	for _, note := range a.Notes {
		out = append(out, Pasteable(note, flags))
	}
	return out
}
