package table

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// tableSection is a part of a table below the summary. Its first row contains the heads of the columns, except in
// NOT READY.
type tableSection struct {
	title string
	rows  [][]string
}

func (t Status) sections(r report.Status) []tableSection {
	out := []tableSection{
		t.fleetSection(r),
		{"SERVICES  what this node runs for its roles" + t.rolesNote(r.Roles), t.services(r)},
		{"NOT READY  why these services are not ready, and the last lines of those that ended", t.notReady(r)},
		{"BLOCKERS  the leader waits for these nodes", t.blockers(r)},
		{"FAILURES  objects that the last pass could not apply", t.failures(r)},
		{"FIGHTS  another client keeps changing these objects", t.fights(r)},
	}
	if n := r.Reconcile.TotalStrangers; n > 0 {
		out = append(out, tableSection{fmt.Sprintf("STRANGERS  %s with the set's label that Lockstep did not create; it leaves them alone", terminal.Count(n, "object")), t.strangers(r)})
	}
	return append(out, tableSection{"WARNINGS", t.warnings(r)})
}

func (t Status) fleetSection(r report.Status) tableSection {
	if len(r.Fleet.Nodes) == 0 {
		return tableSection{"FLEET  this sidecar knows no node yet", [][]string{}}
	}
	return tableSection{fmt.Sprintf("FLEET  releases %s to %s%s%s", r.Fleet.MinRelease, r.Fleet.MaxRelease,
		t.details(", revision %d", r.Fleet.Revision), t.outdated(r.Etcd)), t.fleet(r)}
}

func (t Status) blockers(r report.Status) [][]string {
	rows := [][]string{{"NODE", "REASON", "ALIVE", "WHAT TO DO"}}
	for _, b := range r.Fleet.Blockers {
		rows = append(rows, []string{b.ID, b.Reason, t.unreachable(b, r.Fleet.Nodes), b.Message})
	}
	return headed(rows)
}

// headed leaves out a header without rows.
func headed(rows [][]string) [][]string {
	if len(rows) == 1 {
		return nil
	}
	return rows
}

// unreachable reports how long a blocker has been unreachable, and when its record expires. The time is a lower bound: a
// leader counts from its election, so the count of FLEET is longer.
func (t Status) unreachable(b report.Blocker, nodes []report.FleetNode) string {
	if b.GoneSince.IsZero() {
		return "yes"
	}
	since := b.GoneSince
	for _, n := range nodes {
		if n.ID == b.ID && !n.Alive && !n.AliveSince.IsZero() && n.AliveSince.Before(since.Time) {
			since = n.AliveSince
		}
	}
	out := "no, for at least " + t.age(since)
	if !b.PassedOverAt.IsZero() {
		out += ", expires in " + terminal.Duration(b.PassedOverAt.Sub(t.Now))
	}
	return out
}

// failures are what failed in this node's last pass. While another node leads, they are old: the leader's are warnings.
func (t Status) failures(r report.Status) [][]string {
	if r.Election.Leader != "" && r.Election.State != string(protocol.Leading) {
		return nil
	}
	rows := [][]string{{"OBJECT", "FOR", "WHAT TO DO"}}
	for _, f := range r.Reconcile.Failures {
		rows = append(rows, []string{f.Object, t.lasting(f.Since), f.Message + terminal.Prefixed("; ", f.Remedy)})
	}
	return headed(rows)
}

func (t Status) fights(r report.Status) [][]string {
	rows := [][]string{{"OBJECT", "FOR", "LAST REPAIR", "WHAT TO DO"}}
	for _, f := range r.Reconcile.Drift.Fights {
		last := "-"
		if !f.LastRepair.IsZero() {
			last = t.ago(f.LastRepair)
		}
		rows = append(rows, []string{f.Object, t.lasting(f.Since), last, f.Message + "; the fight is over when the object stays unchanged for 5m"})
	}
	return headed(rows)
}

func (t Status) strangers(r report.Status) [][]string {
	rows := [][]string{{"OBJECT", "FIELD MANAGER", "WHAT TO DO"}}
	for _, s := range r.Reconcile.Strangers {
		rows = append(rows, []string{s.Object, terminal.OrDash(s.Manager), terminal.OrDash(s.Command)})
	}
	return headed(rows)
}

func (t Status) lasting(since report.Timestamp) string {
	if since.IsZero() {
		return "-"
	}
	return t.age(since)
}
