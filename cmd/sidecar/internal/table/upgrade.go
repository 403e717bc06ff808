package table

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// upgradeText reports whether the next upgrade may start: a line for each reason why not.
func upgradeText(r report.Status) []string {
	if r.UpgradeReady {
		return upgradeMayStart(r)
	}
	var out []string
	for i, o := range r.UpgradeObstacles {
		line := obstacleText(o, r.Warnings)
		if o.Node == r.Node.ID {
			line = onThisNode.Replace(line)
		}
		if o.Node != "" {
			line = o.Node + ": " + line
		}
		if i == 0 {
			line = "do not start the next upgrade: " + line
		}
		out = append(out, line)
	}
	if len(out) == 0 { // the answer of an older sidecar
		return []string{"do not start the next upgrade"}
	}
	return out
}

// rollback is the one row with all details: the others refer to it.
func (t Status) rollback(b report.Rollback) string {
	return "to " + b.To + terminal.Prefixed(" by ", b.By) + t.since(b.Since) + untilText(b.Until) + ": " + b.Message
}

// upgradeMayStart reports that it may start, and the notes to read before: a line for each.
func upgradeMayStart(r report.Status) []string {
	var out []string
	for i, note := range r.UpgradeNotes {
		if i == 0 {
			note = "the next upgrade may start; but " + note
		}
		out = append(out, note)
	}
	if len(out) == 0 {
		out = []string{"the next upgrade may start"}
	}
	switch last := &out[len(out)-1]; {
	case r.Etcd.Connected && r.Etcd.Problem != "":
		*last += "; but see ETCD"
	case len(r.Reconcile.Drift.Fights) > 0:
		*last += "; but see FIGHTS"
	case len(Status{}.warnings(r)) > 0:
		*last += "; but see WARNINGS"
	}
	return out
}

// onThisNode replaces what messages about a node say for readers on the others: on that node itself, another row of the
// same screen has it.
var onThisNode = strings.NewReplacer(
	": the sidecar status of that node says why; repair that first", " (see LEADER); repair that first",
	"; the sidecar status of that node has its last lines", "; NOT READY has its last lines",
	": see GATE in the sidecar status of that node", ": see GATE",
	": see the sidecar status of that node", ": see GATE",
)

// ofFleet are the obstacles for which this sidecar finds the warning itself.
var ofFleet = []string{"APIServersDiffer", "ServicesDiffer", "BundlesDiffer", "RecordCorrupt", "NoGate", "NodeDead", "NotPublishing"}

// obstacleText is short if WARNINGS shows the rest: a warning may come a moment later than its obstacle.
func obstacleText(o report.Obstacle, warnings []report.Warning) string {
	same := func(w report.Warning) bool { return w.Reason == o.Reason && w.Subject == o.Node }
	if slices.Contains(ofFleet, o.Reason) && !slices.ContainsFunc(warnings, same) {
		return o.Message
	}
	trouble, cost, found := strings.Cut(o.Message, "; an upgrade stops ")
	if found && o.Reason == string(warn.MemberDown) && len(trouble) > longSentence {
		return "its etcd member does not serve (see WARNINGS); an upgrade stops " + cost
	}
	return cmp.Or(shortObstacles[o.Reason], o.Message)
}

// shortObstacles are the obstacles of which another row has the rest.
var shortObstacles = map[string]string{
	"APIServersDiffer":           "nodes of one release have different kube-apiservers (see WARNINGS)",
	"ServicesDiffer":             "nodes of one release have different services (see WARNINGS)",
	"BundlesDiffer":              "nodes of one release have different bundles (see WARNINGS)",
	"RecordCorrupt":              "its record is corrupt (see WARNINGS)",
	"NoGate":                     "it is alive but reports no gate (see WARNINGS)",
	"BundleRejected":             "its bundle directory was rejected (see WARNINGS)",
	"ServicesRejected":           "its services directory was rejected (see WARNINGS)",
	"RemovalsHeld":               "removals are held (see WARNINGS)",
	"NodeDead":                   "it is not alive (see WARNINGS)",
	"NotPublishing":              "its sidecar runs without --kubernetes-service (see WARNINGS)",
	"ServiceNotReady":            "a service of it is not ready (see WARNINGS)",
	string(warn.OtherBundle):     "it runs another bundle than that of the objects",
	string(protocol.RollingBack): "a rollback is under way (see ROLLBACK)",
	string(warn.TurnUnderWay):    "it has the turn (see TURN)",
}
