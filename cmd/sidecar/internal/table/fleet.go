package table

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// column is a column of a table of nodes.
type column struct {
	head  string
	shown bool
	cell  func(report.FleetNode) string // an empty one becomes a dash
}

func nodeRows(nodes []report.FleetNode, columns []column) [][]string {
	rows := make([][]string, 1+len(nodes))
	for _, c := range columns {
		if !c.shown {
			continue
		}
		rows[0] = append(rows[0], c.head)
		for i, n := range nodes {
			rows[1+i] = append(rows[1+i], terminal.OrDash(c.cell(n)))
		}
	}
	return rows
}

// differ reports whether the cells of two nodes differ, or that of one from first. An empty one is unknown.
func differ(first string, nodes []report.FleetNode, cell func(report.FleetNode) string) bool {
	for _, n := range nodes {
		is := cell(n)
		if is != "" && first != "" && is != first {
			return true
		}
		first = cmp.Or(first, is)
	}
	return false
}

// The cells of both tables.
func idOf(n report.FleetNode) string        { return n.ID }
func versionOf(n report.FleetNode) string   { return n.Version }
func rolesOf(n report.FleetNode) string     { return strings.Join(n.Roles, ",") }
func electionOf(n report.FleetNode) string  { return n.Election }
func bundleOf(n report.FleetNode) string    { return n.Bundle }
func apiserverOf(n report.FleetNode) string { return n.ApiserverVersion }
func servicesOf(n report.FleetNode) string  { return terminal.ShortDigest(n.ServicesDigest) }
func ephemeralOf(n report.FleetNode) string { return terminal.When(n.Ephemeral, "yes") }

func (t Status) fleet(r report.Status) [][]string {
	nodes := r.Fleet.Nodes
	return nodeRows(nodes, []column{
		{"ID", true, idOf},
		{"RELEASE", true, func(n report.FleetNode) string { return n.Release }},
		{"GATE", true, t.nodeGate},
		{"ALIVE", true, t.alive},
		{"ELECTION", true, electionOf},
		{"BLOCKS", true, func(n report.FleetNode) string { return terminal.When(n.Blocks, "BLOCKS") }},
		{"EPHEMERAL", slices.ContainsFunc(nodes, isEphemeral), t.ephemeral},
		{"BUNDLE", differ(r.Reconciler.Bundle, nodes, bundleOf), bundleOf},
		{"ROLES", !t.Wide && differ("", nodes, rolesOf), rolesOf},
		{"APISERVER", t.Wide || differ("", nodes, apiserverOf), apiserverOf},
		{"SERVICES", t.Wide || differ("", nodes, servicesOf), servicesOf},
		{"VERSION", t.Wide, versionOf},
		{"ROLES", t.Wide, rolesOf},
		{"ADDRESS", t.Wide, func(n report.FleetNode) string { return n.Address }},
		{"DIGEST", t.Wide, func(n report.FleetNode) string { return n.BundleDigest }},
	})
}

// Records are the rows of a table of node records.
func Records(records []report.Record, wide bool) [][]string {
	nodes := make([]report.FleetNode, len(records))
	for i, r := range records {
		nodes[i].Record = r
	}
	return nodeRows(nodes, []column{
		{"ID", true, idOf},
		{"RELEASE", true, versionOf},
		{"ROLES", true, rolesOf},
		{"ALIVE", true, func(n report.FleetNode) string { return terminal.YesOrNo(n.Alive) }},
		{"GATE", true, recordGate},
		{"ELECTION", true, electionOf},
		{"PROBLEM", true, func(n report.FleetNode) string { return n.Problem }},
		{"EPHEMERAL", slices.ContainsFunc(nodes, isEphemeral), ephemeralOf},
		{"APISERVER", wide || differ("", nodes, apiserverOf), apiserverOf},
		{"SERVICES", wide || differ("", nodes, servicesOf), servicesOf},
	})
}

func isEphemeral(n report.FleetNode) bool { return n.Ephemeral }

// recordGate is the gate of a node, as sidecar status shows it.
func recordGate(n report.FleetNode) string {
	gate := cmp.Or(n.ServesReason, n.Reason)
	switch {
	case !n.Alive:
		return ""
	case gate == string(protocol.Ready):
		return "ready"
	}
	return gate
}

// nodeGate reports whether a node serves, as it last reported, and if not, the reason, since when, and who caused
// it.
func (t Status) nodeGate(n report.FleetNode) string {
	switch {
	case n.Problem != "":
		return "record corrupt"
	case n.Ready && n.Reason == string(protocol.Overridden) && (n.Serves || n.ServesReason == ""):
		return n.Reason
	case n.Ready && (n.Serves || n.ServesReason == ""): // an older sidecar does not report whether it serves
		return "ready"
	case n.Cordon != nil && (!n.Alive || n.Reason == string(protocol.Cordoned)): // it stays when the sidecar is back
		return string(protocol.Cordoned) + t.since(n.Cordon.Since) + ByWhom(n.Cordon.By)
	case n.Ready:
		return n.ServesReason + t.since(n.ServesSince)
	case n.Reason == "":
		return ""
	}
	return n.Reason + t.since(n.ServesSince)
}

func (t Status) alive(n report.FleetNode) string {
	if n.Alive {
		return "yes"
	}
	if n.AliveSince.IsZero() {
		return "no"
	}
	return "no, for " + t.age(n.AliveSince)
}

// ephemeral reports whether and when the record of a node is deleted.
func (t Status) ephemeral(n report.FleetNode) string {
	left := n.ExpiresAt.Sub(t.Now).Round(time.Second)
	switch {
	case !n.Ephemeral || n.ExpiresAt.IsZero():
	case left > 0:
		return "deleted in " + terminal.Duration(left)
	default:
		return "expired" // it is about to be deleted, unless its node has a turn
	}
	return ephemeralOf(n)
}
