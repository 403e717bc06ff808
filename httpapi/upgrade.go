package httpapi

import "github.com/lockstep-dev/lockstep/protocol"

// UpgradeObstacleReport is why the next upgrade must not start.
type UpgradeObstacleReport struct {
	Reason  string `json:"reason"`
	Node    string `json:"node"` // empty: no single node
	Message string `json:"message"`
}

// UpgradeReady reports whether the next upgrade may start, as upgradeReady in /status.
func UpgradeReady(s Snapshot) bool { return judgeUpgrade(s).Ready() }

func judgeUpgrade(s Snapshot) protocol.UpgradeAnswer {
	return protocol.JudgeUpgrade(protocol.UpgradeFacts{
		Unreachable: !s.Etcd.Connected, Full: s.Etcd.Full, Status: s.Status, Fleet: s.Fleet, Voters: s.Cluster.voters(),
		Overdue: s.Warnings,
	})
}

// UpgradeObstacles renders why the next upgrade must not start; never nil. The flags of
// etcd, with a leading space, are added to the commands in the messages.
func UpgradeObstacles(a protocol.UpgradeAnswer, flags string) []UpgradeObstacleReport {
	out := make([]UpgradeObstacleReport, 0, len(a.Obstacles))
	for _, o := range a.Obstacles {
		out = append(out, UpgradeObstacleReport{Reason: string(o.Reason), Node: string(o.Node), Message: Pasteable(o.Message, flags)})
	}
	return out
}

// UpgradeNotes renders the costs of an upgrade in a fleet of this size; never nil.
func UpgradeNotes(a protocol.UpgradeAnswer, flags string) []string {
	out := make([]string, 0, len(a.Notes))
	for _, note := range a.Notes {
		out = append(out, Pasteable(note, flags))
	}
	return out
}
