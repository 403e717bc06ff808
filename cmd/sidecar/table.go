package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/lockstep-dev/lockstep/httpapi"
)

// table prints a report for people. Some of the text is from other nodes, so all of
// it is cleaned of what could control a terminal. Epochs and revisions are shown
// only if wide is set.
type table struct {
	w    io.Writer
	now  time.Time
	wide bool
}

func (t table) write(r httpapi.Report) {
	t.rows(t.summary(r))
	fmt.Fprintf(t.w, "\nFLEET  releases %s to %s%s\n", r.Fleet.MinRelease, r.Fleet.MaxRelease, t.details(", revision %d", r.Fleet.Revision))
	t.rows(t.fleet(r))
	t.section("BLOCKERS", t.blockers(r))
	t.section("FAILURES", failureRows(r))
	t.section("FIGHTS", fightRows(r))
	t.section("WARNINGS", warningRows(r))
}

// details formats what only a wide table shows.
func (t table) details(format string, args ...any) string {
	if !t.wide {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// rows prints cells in columns.
func (t table) rows(rows [][]string) {
	tw := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		for i := range cells {
			cells[i] = clean(cells[i])
		}
		fmt.Fprintln(tw, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	_ = tw.Flush() // into a buffer
}

func (t table) section(title string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(t.w, "\n%s\n", title)
	t.rows(rows)
}

func (t table) summary(r httpapi.Report) [][]string {
	rows := [][]string{
		{"NODE", r.Node.ID + "  " + versionText(r.Node.Release, r.Node.Version) + rolesText(r.Node.Roles)},
		{"GATE", t.gate(r.Ready)},
		{"STATUS", t.status(r.Reconciler)},
		{"LEADER", t.leader(r.Election)},
	}
	if step := r.Election.Step; step.Kind != "" {
		rows = append(rows, []string{"STEP", step.Rule + t.details(" (%s)", step.Kind) + ": " + step.Message})
	}
	if o := r.Reconcile.Objects; o.Desired > 0 || r.Reconcile.LastError != "" {
		rows = append(rows, []string{"OBJECTS", t.objects(r.Reconcile)})
	}
	if r.Reconcile.PruneHeld != "" {
		rows = append(rows, []string{"", fmt.Sprintf("%d not pruned: %s", r.Reconcile.Objects.Owed, r.Reconcile.PruneHeld)})
	}
	if r.Reconcile.LastError != "" {
		rows = append(rows, []string{"", "last error: " + r.Reconcile.LastError})
	}
	return append(rows, []string{"UPGRADE", upgradeText(r)}, []string{"ETCD", t.etcd(r.Etcd)})
}

func (t table) gate(r httpapi.ReadyReport) string {
	state := "NOT READY " + r.Reason
	if r.Ready {
		state = "ready"
	}
	out := state + t.since(r.Since) + ": " + r.Message
	if r.StaleSince != nil {
		out += " (last known " + t.ago(r.StaleSince) + ")"
	}
	return out
}

func (t table) status(s httpapi.ReconcilerReport) string {
	switch {
	case s.Kind == "absent":
		return "none yet"
	case s.Kind == "corrupt":
		return "corrupt: " + s.Problem
	case s.Kind != "present":
		return "not read yet"
	}
	out := fmt.Sprintf("%s, version %s, minimum release %s", s.State, s.Version, s.MinimumCompatibleRelease)
	if s.UpdatedAt != nil {
		out += "; written " + t.ago(s.UpdatedAt)
	}
	if s.Leader != "" {
		out += " by " + s.Leader
	}
	return out + t.details("; content %s, content epoch %d, epoch %d, drained %d, revision %d, digest %s",
		s.ContentRelease, s.ContentEpoch, s.Epoch, s.DrainedEpoch, s.ModRevision, s.BundleDigest)
}

func (t table) objects(r httpapi.ReconcileReport) string {
	o := r.Objects
	out := fmt.Sprintf("%d desired: %d written, %d unchanged, %d failed; %d pruned", o.Desired, o.Applied, o.Unchanged, o.Failed, o.Pruned)
	if o.Owed > 0 && r.PruneHeld == "" {
		out += fmt.Sprintf(", %d to prune when %s", o.Owed, removalsWaitFor(r))
	}
	if r.LastSuccess != nil {
		out += "; last complete pass " + t.ago(r.LastSuccess)
	}
	if d := r.Drift; d.Repairs > 0 {
		out += fmt.Sprintf("; %d repaired", d.Repairs)
		if d.LastRepair != nil {
			out += ", the last " + t.ago(d.LastRepair)
		}
	}
	if r.Running {
		out += "; a pass is running"
	}
	return out
}

// removalsWaitFor says when objects are removed that no brake holds.
func removalsWaitFor(r httpapi.ReconcileReport) string {
	if len(r.Failures) > 0 {
		return "no required object fails and no node of an older release is registered"
	}
	return "no node of an older release is registered"
}

func (t table) etcd(e httpapi.EtcdReport) string {
	if e.Connected {
		return "connected" + t.details(", revision %d", e.Revision)
	}
	if e.LastContact == nil {
		return "NOT CONNECTED, never reached"
	}
	return "NOT CONNECTED, last contact " + t.ago(e.LastContact)
}

func (t table) fleet(r httpapi.Report) [][]string {
	head := []string{"ID", "RELEASE", "GATE", "ALIVE", "ELECTION", "BLOCKS"}
	if t.wide {
		head = append(head, "VERSION", "ROLES", "ADDRESS", "DIGEST")
	}
	rows := [][]string{head}
	for _, n := range r.Fleet.Nodes {
		cells := []string{n.ID, orDash(n.Release), orDash(nodeGate(n)), aliveText(n), orDash(n.Election), blocksText(n)}
		if t.wide {
			cells = append(cells, orDash(n.Version), orDash(strings.Join(n.Roles, ",")), orDash(n.Address), orDash(n.BundleDigest))
		}
		rows = append(rows, cells)
	}
	return rows
}

func nodeGate(n httpapi.FleetNode) string {
	switch {
	case n.Problem != "":
		return "record corrupt"
	case n.Ready:
		return "ready"
	}
	return n.Reason
}

func (t table) blockers(r httpapi.Report) [][]string {
	var rows [][]string
	for _, b := range r.Fleet.Blockers {
		rows = append(rows, []string{b.ID, b.Reason, t.unreachable(b), b.Message})
	}
	return rows
}

// unreachable says for how long a blocker has been unreachable, and when its record
// expires; a dash: the node is alive.
func (t table) unreachable(b httpapi.BlockerReport) string {
	if b.GoneSince == nil {
		return "-"
	}
	out := "unreachable for " + t.age(*b.GoneSince)
	if b.PassedOverAt != nil {
		out += ", expires in " + duration(b.PassedOverAt.Sub(t.now))
	}
	return out
}

func failureRows(r httpapi.Report) [][]string {
	var rows [][]string
	for _, f := range r.Reconcile.Failures {
		rows = append(rows, []string{f.Object, f.Message})
	}
	return rows
}

func fightRows(r httpapi.Report) [][]string {
	var rows [][]string
	for _, f := range r.Reconcile.Drift.Fights {
		rows = append(rows, []string{f.Object, f.Message})
	}
	return rows
}

func warningRows(r httpapi.Report) [][]string {
	var rows [][]string
	if r.Node.BundleProblem != "" {
		rows = append(rows, []string{"the bundle directory was rejected, the last valid bundle stays in use: " + r.Node.BundleProblem})
	}
	if p := r.Reconcile.Drift.Problem; p != "" {
		rows = append(rows, []string{"drift: " + p})
	}
	for _, n := range r.Fleet.Nodes {
		if n.Problem != "" {
			rows = append(rows, []string{"record of " + n.ID + ": " + n.Problem})
		}
	}
	for _, w := range append(append([]string{}, r.Warnings...), r.Etcd.Warnings...) {
		rows = append(rows, []string{w})
	}
	return rows
}

func (t table) leader(e httpapi.ElectionReport) string {
	out := "none known to this node"
	if e.Leader != "" {
		out = e.Leader + t.details(", epoch %d", e.Epoch)
	}
	out += "; this node: " + e.State
	if e.Message != "" {
		out += " (" + e.Message + ")"
	}
	return out
}

func upgradeText(r httpapi.Report) string {
	switch {
	case r.UpgradeReady:
		return "the next upgrade may start"
	case !r.Etcd.Connected:
		return "unknown while etcd is unreachable: do not start an upgrade"
	case r.Fleet.MinRelease != r.Fleet.MaxRelease:
		return "in progress: do not start another upgrade"
	}
	return "not ready for an upgrade: the status is not DONE at the release of all controllers"
}

func versionText(release, version string) string {
	if version == release {
		return "release " + release
	}
	return fmt.Sprintf("release %s (version %s)", release, version)
}

func rolesText(roles []string) string {
	if len(roles) == 0 {
		return ", no roles"
	}
	return ", " + strings.Join(roles, ", ")
}

func (t table) since(at *time.Time) string {
	if at == nil {
		return ""
	}
	return " for " + t.age(*at)
}

func (t table) ago(at *time.Time) string { return t.age(*at) + " ago" }

func (t table) age(at time.Time) string { return duration(t.now.Sub(at)) }

// duration formats d as kubectl does: 45s, 12m, 3h20m, 5d4h.
func duration(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// clean replaces what is not printable by spaces: some of it controls terminals.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func aliveText(n httpapi.FleetNode) string {
	if n.Alive {
		return "yes"
	}
	return "no"
}

func blocksText(n httpapi.FleetNode) string {
	if n.Blocks {
		return "BLOCKS"
	}
	return "-"
}
