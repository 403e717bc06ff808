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

// table prints a report for people. What it prints comes from other nodes, so
// that every text is cleaned of what could drive a terminal.
type table struct {
	w    io.Writer
	now  time.Time
	wide bool
}

func (t table) write(r httpapi.Report) {
	t.rows(t.summary(r))
	fmt.Fprintf(t.w, "\nFLEET  releases %s to %s, revision %d\n", r.Fleet.MinRelease, r.Fleet.MaxRelease, r.Fleet.Revision)
	t.rows(t.fleet(r))
	t.section("BLOCKERS", t.blockers(r))
	t.section("FAILURES", failures(r))
	t.section("FIGHTS", fights(r))
	t.section("WARNINGS", warnings(r))
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
		{"LEADER", leaderText(r)},
	}
	if r.Election.Step.Kind != "" {
		rows = append(rows, []string{"STEP", fmt.Sprintf("%s (%s): %s", r.Election.Step.Kind, r.Election.Step.Rule, r.Election.Step.Message)})
	}
	if o := r.Reconcile.Objects; o.Desired > 0 || r.Reconcile.LastError != "" {
		rows = append(rows, []string{"OBJECTS", t.objects(r.Reconcile)})
	}
	if r.Reconcile.PruneHeld != "" {
		rows = append(rows, []string{"", fmt.Sprintf("%d not pruned: %s", r.Reconcile.Objects.Owed, r.Reconcile.PruneHeld)})
	}
	if r.Reconcile.LastError != "" {
		rows = append(rows, []string{"", "last pass: " + r.Reconcile.LastError})
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
		out += " (as last known, " + t.ago(r.StaleSince) + ")"
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
	out := fmt.Sprintf("%s  version %s, minimum release %s", s.State, s.Version, s.MinimumCompatibleRelease)
	if s.Leader != "" {
		out += ", by " + s.Leader
	}
	if s.UpdatedAt != nil {
		out += " " + t.ago(s.UpdatedAt)
	}
	if t.wide {
		out += fmt.Sprintf("; content %s, content epoch %d, epoch %d, drained %d, revision %d, digest %s",
			s.ContentRelease, s.ContentEpoch, s.Epoch, s.DrainedEpoch, s.ModRevision, s.BundleDigest)
	}
	return out
}

func (t table) objects(r httpapi.ReconcileReport) string {
	o := r.Objects
	out := fmt.Sprintf("%d desired: %d written, %d unchanged, %d failed; %d pruned", o.Desired, o.Applied, o.Unchanged, o.Failed, o.Pruned)
	if o.Owed > 0 && r.PruneHeld == "" {
		out += fmt.Sprintf(", %d to be pruned when %s", o.Owed, removalsWaitFor(r))
	}
	if r.LastSuccess != nil {
		out += "; last complete " + t.ago(r.LastSuccess)
	}
	if d := r.Drift; d.Repairs > 0 {
		out += fmt.Sprintf("; %d put back", d.Repairs)
		if d.LastRepair != nil {
			out += ", the last " + t.ago(d.LastRepair)
		}
	}
	if r.Running {
		out += "; a pass is at work"
	}
	return out
}

// removalsWaitFor says when removals are made that no brake holds.
func removalsWaitFor(r httpapi.ReconcileReport) string {
	if len(r.Failures) > 0 {
		return "no required object fails and no older controller is left"
	}
	return "no older controller is left"
}

func (t table) etcd(e httpapi.EtcdReport) string {
	if e.Connected {
		return fmt.Sprintf("connected, revision %d", e.Revision)
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
		rows = append(rows, []string{b.ID, b.Reason, t.gone(b), b.Message})
	}
	return rows
}

// gone says for how long a blocker has been gone, and for how long it still
// blocks; a dash: it is there.
func (t table) gone(b httpapi.BlockerReport) string {
	if b.GoneSince == nil {
		return "-"
	}
	out := "gone for " + t.age(*b.GoneSince)
	if b.PassedOverAt != nil {
		left := t
		left.now = *b.PassedOverAt
		out += ", blocks for another " + left.age(t.now)
	}
	return out
}

func failures(r httpapi.Report) [][]string {
	var rows [][]string
	for _, f := range r.Reconcile.Failures {
		rows = append(rows, []string{f.Object, f.Message})
	}
	return rows
}

func fights(r httpapi.Report) [][]string {
	var rows [][]string
	for _, f := range r.Reconcile.Drift.Fights {
		rows = append(rows, []string{f.Object, f.Message})
	}
	return rows
}

func warnings(r httpapi.Report) [][]string {
	var rows [][]string
	if r.Node.BundleProblem != "" {
		rows = append(rows, []string{"the folder's bundle is not taken over, the last good one stays: " + r.Node.BundleProblem})
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

func leaderText(r httpapi.Report) string {
	e := r.Election
	out := "nobody, as far as this node knows"
	if e.Leader != "" {
		out = fmt.Sprintf("%s, epoch %d", e.Leader, e.Epoch)
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
		return "the next may start: all controllers are at the release of the status, and it is DONE"
	case !r.Etcd.Connected:
		return "not known while etcd is out of reach: do not start one"
	case r.Fleet.MinRelease != r.Fleet.MaxRelease:
		return "under way: do not start another"
	}
	return "not ready for the next: the status is not DONE at the release of all controllers"
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

// age rounds as people speak: 45s, 12m, 3h20m, 5d4h.
func (t table) age(at time.Time) string {
	d := max(t.now.Sub(at), 0)
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

// clean turns what is not printable into spaces: terminals act on some of it.
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
