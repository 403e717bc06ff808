package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// Status prints a report for people. Some of the text is from other nodes, so all of it is cleaned of characters
// that could control a terminal. Epochs and revisions are shown only if wide is set.
type Status struct {
	terminal.Printer
	Now  time.Time
	Wide bool
}

func (t Status) Write(r report.Status) {
	t.Rows(t.summary(r))
	for _, s := range t.sections(r) {
		t.Section(s.title, s.rows)
	}
}

// outdated reports the age of the rest of the table while etcd does not answer.
func (t Status) outdated(e report.Etcd) string {
	if e.Connected || e.LastContact.IsZero() {
		return ""
	}
	return ", as of " + t.ago(e.LastContact)
}

// details formats details that only a wide table shows.
func (t Status) details(format string, args ...any) string {
	if !t.Wide {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// untilText is ", until TIME"; empty: there is no end.
func untilText(until report.Timestamp) string {
	if until.IsZero() {
		return ""
	}
	return ", until " + until.UTC().Format(time.RFC3339)
}

func (t Status) summary(r report.Status) [][]string {
	rows := append(t.problems(r), [][]string{
		{"NODE", r.Node.ID + "  " + versionText(r.Node.Release, r.Node.Version) + ", " + cmp.Or(strings.Join(r.Node.Roles, ", "), "no roles")},
		{"BUNDLE", t.bundle(r.Node)},
		{"GATE", seeRow(t.gate(r.Ready), r.Election.Step.Message, stepRow(r))},
		{"STATUS", t.status(r.Reconciler)},
		{"LEADER", t.leader(r)},
	}...)
	if text := t.replacement(r.Reconciler.Replacement); text != "" {
		rows = append(rows, []string{"REPLACE", text})
	}
	if b := r.Reconciler.Rollback; b != nil {
		rows = append(rows, []string{"ROLLBACK", t.rollback(*b)})
	}
	rows = append(rows, titled("TURN", t.Turns(r.Turns))...)
	if step := r.Election.Step; step.Kind != "" {
		rows = append(rows, []string{"STEP", t.step(r)})
	}
	if o := r.Reconcile.Objects; o.Desired > 0 || r.Reconcile.LastError != "" {
		rows = append(rows, []string{"OBJECTS", t.objects(r)})
	}
	if r.Reconcile.PruneHeld != "" {
		rows = append(rows, []string{"", fmt.Sprintf("%d not pruned: %s", r.Reconcile.Objects.Owed, r.Reconcile.PruneHeld)})
	}
	if r.Reconcile.LastError != "" {
		text := r.Reconcile.LastError
		if strings.Contains(r.Ready.Message, text) {
			text = seeRow(text, text, "GATE")
		}
		rows = append(rows, []string{"", "last error: " + text})
	}
	rows = append(rows, titled("UPGRADE", upgradeText(r))...)
	rows = append(rows, titled("ENDPOINTS", t.endpoints(r.Endpoints))...)
	rows = append(rows, []string{"ETCD", t.etcd(r.Etcd)})
	rows = append(rows, titled("CLUSTER", t.cluster(r.Cluster))...)
	return rows
}

// titled returns a row for each line, of which the first shows the title.
func titled(title string, lines []string) (rows [][]string) {
	for _, line := range lines {
		rows = append(rows, []string{title, line})
		title = ""
	}
	return rows
}

// exceptions counts the objects that contradict the step of a leader.
func exceptions(r report.Status) string {
	if n := len(r.Reconcile.Drift.Fights); n > 0 && r.Election.Step.Kind == "Hold" {
		return fmt.Sprintf(", except %s (see FIGHTS)", terminal.Count(n, "object"))
	}
	return ""
}

func (t Status) gate(r report.Ready) string {
	state := "NOT READY " + r.Reason
	switch {
	case r.Reason == string(protocol.Overridden):
		state = "OVERRIDDEN"
	case r.Ready:
		state = "ready"
	}
	out := state + t.since(r.Since) + ": " + r.Message
	if r.Ready && !r.Serves && r.ServesReason != "" { // an older sidecar does not report it
		out = "NOT IN SERVICE" + t.since(r.ServesSince) + ": " + r.ServesMessage + "; its gate is " + out
	}
	if !r.StaleSince.IsZero() {
		out += " (last known " + t.ago(r.StaleSince) + ")"
	}
	return out
}

func (t Status) status(s report.Reconciler) string {
	switch {
	case s.Kind == "absent":
		return "none yet"
	case s.Kind == "corrupt":
		return "corrupt: " + s.Problem
	case s.Kind != "present":
		return "not read yet"
	}
	out := fmt.Sprintf("%s, %s, minimum release %s%s", s.State, versionText(releaseOf(s.Version), s.Version), s.MinimumCompatibleRelease,
		terminal.Prefixed(", bundle ", s.Bundle))
	if !s.UpdatedAt.IsZero() {
		out += "; written " + t.ago(s.UpdatedAt)
	}
	return out + terminal.Prefixed(" by ", s.Leader) + t.details("; content %s, content epoch %d, epoch %d, drained %d, revision %d, digest %s",
		s.ContentRelease, s.ContentEpoch, s.Epoch, s.DrainedEpoch, s.ModRevision, s.BundleDigest)
}

func (t Status) objects(shown report.Status) string {
	r := shown.Reconcile
	o := r.Objects
	out := ""
	switch e := shown.Election; {
	case e.State != string(protocol.Leading):
		out = "when this node last led: "
	case r.LastError == "" && !r.LastSuccess.IsZero() && r.LastSuccess.Before(e.Since.Time): // it holds
		out = "when this node led before: "
	}
	out += fmt.Sprintf("%d desired%s: %d written, %d unchanged, %d failed; %d pruned", o.Desired, fenceText(o), o.Applied, o.Unchanged, o.Failed, o.Pruned)
	if o.Owed > 0 && r.PruneHeld == "" {
		out += fmt.Sprintf(", %d to prune when %sno node of another release is registered", o.Owed,
			terminal.When(len(r.Failures) > 0, "no required object fails and "))
	}
	if !r.LastSuccess.IsZero() {
		out += "; last complete pass " + t.ago(r.LastSuccess)
	}
	if d := r.Drift; d.Repairs > 0 {
		out += fmt.Sprintf("; %d repaired", d.Repairs)
		if !d.LastRepair.IsZero() {
			out += ", the last " + t.ago(d.LastRepair)
		}
	}
	if r.Running {
		out += "; a pass is running"
	}
	return out
}

// fenceText counts the objects that are not in the bundle.
func fenceText(o report.Objects) string {
	if o.Fence == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d of the bundle, %d of Lockstep's fence)", o.Desired-o.Fence, o.Fence)
}

func (t Status) etcd(e report.Etcd) string {
	if e.Connected {
		return "connected" + t.details(", revision %d", e.Revision) + terminal.Prefixed(", but ", e.Problem)
	}
	out := "NOT CONNECTED, never reached"
	if !e.LastContact.IsZero() {
		out = "NOT CONNECTED for " + t.age(e.LastContact)
	}
	if e.Problem != "" {
		return out + ": " + e.Problem
	}
	if len(e.Endpoints) == 0 {
		return out
	}
	return out + "; servers: " + strings.Join(e.Endpoints, ", ")
}

// electionShown is this node's part in the election as FLEET, and every other node, shows it: while its services keep it from
// taking part, a node is withdrawn.
func electionShown(r report.Status) string {
	own := func(n report.FleetNode) bool {
		return n.ID == r.Node.ID && n.Alive && n.Election == string(protocol.Withdrawn)
	}
	if r.Election.State == string(protocol.Ineligible) && slices.ContainsFunc(r.Fleet.Nodes, own) {
		return string(protocol.Withdrawn)
	}
	return r.Election.State
}

func (t Status) leader(r report.Status) string {
	e := r.Election
	out := "none known to this node"
	if e.Leader != "" {
		out = e.Leader + t.details(", epoch %d", e.Epoch)
	} else if i := slices.IndexFunc(r.Fleet.Nodes, func(n report.FleetNode) bool { return n.Election == "leading" }); i >= 0 {
		out = r.Fleet.Nodes[i].ID + ", as it last reported"
	}
	out += t.outdated(r.Etcd) + "; this node: " + electionShown(r)
	if e.State != "unknown" {
		out += t.since(e.Since)
	}
	switch b := r.Reconciler.Rollback; {
	case e.Reason == string(protocol.RollingBack) && b != nil:
		out += " (only nodes of release " + b.To + " lead: see ROLLBACK)"
	case e.Message != "" && strings.Contains(r.Ready.Message, e.Message):
		out += " (" + seeRow(e.Message, e.Message, "GATE") + ")"
	case e.Message != "":
		out += " (" + e.Message + ")"
	}
	return out
}

// longSentence is the length from which people do not want to read a sentence twice.
const longSentence = 80

// seeRow leaves a long sentence to the row that contains it too.
func seeRow(text, sentence, row string) string {
	if len(sentence) < longSentence {
		return text
	}
	return strings.Replace(text, sentence, "see "+row, 1)
}

func versionText(release, version string) string {
	if version == release {
		return "release " + release
	}
	return fmt.Sprintf("release %s (version %s)", release, version)
}

// releaseOf is the part of a version by which nodes and objects are ordered.
func releaseOf(version string) string {
	if i := strings.IndexAny(version, "-+"); i >= 0 {
		return version[:i]
	}
	return version
}

func (t Status) since(at report.Timestamp) string {
	if at.IsZero() {
		return ""
	}
	return " for " + t.age(at)
}

// ago formats how long ago something was. Times are from the clocks of other machines.
func (t Status) ago(at report.Timestamp) string {
	if ahead := at.Sub(t.Now); ahead > maxClockDifference {
		return terminal.Duration(ahead) + " from now (check the clocks of the node and of this machine)"
	}
	return t.age(at) + " ago"
}

// maxClockDifference is more than the clocks of synchronized machines differ.
const maxClockDifference = time.Minute

func (t Status) age(at report.Timestamp) string { return terminal.Duration(t.Now.Sub(at.Time)) }
