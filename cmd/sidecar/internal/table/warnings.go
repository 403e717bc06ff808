package table

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// warned is a warning in the table: the problem, its place, and the nodes that report it.
type warned struct {
	nodes   []string
	reason  string
	local   bool // this node knows it itself, of another one
	since   report.Timestamp
	message string

	rank int
}

func warnedOf(node string, w report.Warning) warned {
	rank := warn.Rank(protocol.Warning{Reason: protocol.Reason(w.Reason), Subject: w.Subject})
	return warned{nodes: []string{node}, reason: w.Reason, since: w.Since, message: w.Message, rank: rank}
}

func (w warned) known() warned {
	w.local = true
	return w
}

// includes reports whether w is this node's own and more detailed warning about the same problem.
func (w warned) includes(other warned) bool {
	return w.local && slices.Equal(w.nodes, other.nodes) &&
		(w.reason == other.reason && other.reason != "" || strings.Contains(w.message, other.message))
}

// noNode is in the place of the node in a warning about the fleet.
const noNode = "-"

// isAbout reports whether this node itself knows a problem that another node reports about a third one, or about the
// fleet.
func (w warned) isAbout(other report.Warning) bool {
	if isOfFleet(other) {
		return w.reason == other.Reason && slices.Equal(w.nodes, []string{noNode})
	}
	return w.local && other.Subject != "" && w.reason == other.Reason && slices.Equal(w.nodes, []string{other.Subject})
}

func (t Status) warnings(r report.Status) [][]string {
	rows := [][]string{{"NODE", "FOR", "WHAT TO DO"}}
	for _, w := range allWarned(r) {
		rows = append(rows, []string{strings.Join(w.nodes, ", "), t.lasting(w.since), w.message})
	}
	return headed(rows)
}

// allWarned lists the warnings of this node, and those that the other nodes report. A warning of several nodes in the
// same words is one; so are this node's and another one's warnings about the same problem. What is down now comes first.
func allWarned(r report.Status) []warned {
	all := knownHere(r)
	for _, n := range r.Fleet.Nodes {
		if n.ID == r.Node.ID {
			continue
		}
		for _, w := range n.Warnings {
			if isTurn(w, r.Turns) || slices.ContainsFunc(all, func(k warned) bool { return k.isAbout(w) }) {
				continue
			}
			w.Message = sameProblem(r, n, w)
			one := warnedOf(n.ID, w)
			if isOfFleet(w) {
				one.nodes, one.local = []string{noNode}, true
			}
			switch {
			case slices.ContainsFunc(r.Fleet.Nodes, func(n report.FleetNode) bool { return n.ID == w.Subject }):
				one.nodes = []string{w.Subject} // a leader reports which nodes it waits for
			case w.Subject != "":
				one.message = w.Subject + ": " + one.message
			}
			all = merged(all, one)
		}
	}
	sorting.By(all, func(a, b warned) int { return cmp.Compare(a.rank, b.rank) })
	return all
}

// knownHere lists the warnings of this node: about itself, and about other nodes.
func knownHere(r report.Status) []warned {
	var out []warned
	own := func(w report.Warning) warned {
		w.Message = onThisNode.Replace(w.Message)
		return warnedOf(r.Node.ID, w)
	}
	for _, w := range r.Warnings {
		switch {
		case w.Message == r.Election.Message && w.Subject == "": // LEADER shows it
		case isOtherBundle(w), isRollback(w, r.Reconciler.Rollback), isTurn(w, r.Turns): // the first row shows it, or ROLLBACK, or TURN
		case isOfFleet(w):
			out = append(out, warnedOf(noNode, w).known())
		case w.Subject == "":
			out = append(out, own(w))
		case len(out) > 0 && out[len(out)-1].local && out[len(out)-1].message == w.Message: // one problem of several nodes
			out[len(out)-1].nodes = append(out[len(out)-1].nodes, w.Subject)
		default:
			out = append(out, warnedOf(w.Subject, w).known())
		}
	}
	if p := r.Reconcile.Drift.Problem; p != "" {
		out = append(out, own(report.Warning{Message: "drift: " + p}))
	}
	for _, text := range r.Etcd.Warnings {
		known := own(report.Warning{Message: text})
		known.rank = warn.Note.Rank()
		out = append(out, known)
	}
	return out
}

// isOfFleet reports whether a warning is about no node: the one that reports it has nothing to do with it.
func isOfFleet(w report.Warning) bool {
	return w.Subject == "" && slices.Contains([]protocol.Reason{
		warn.NoLeader, warn.Outage, warn.BundlesDiffer, warn.APIServersDiffer, warn.ServicesDiffer,
		warn.EtcdLeaderChanges,
	}, protocol.Reason(w.Reason))
}

// isRollback reports whether a warning repeats the row ROLLBACK. It may be some moments older.
func isRollback(w report.Warning, b *report.Rollback) bool {
	return b != nil && w.Reason == string(protocol.RollingBack)
}

// merged adds the warning of one node, unless a row already contains it.
func merged(all []warned, one warned) []warned {
	for i, w := range all {
		switch {
		case w.message == one.message:
			if !slices.Contains(w.nodes, one.nodes[0]) {
				all[i].nodes = append(w.nodes, one.nodes...)
			}
			all[i].since = earlier(w.since, one.since)
			return all
		case w.includes(one):
			return all
		}
	}
	return append(all, one)
}

func earlier(a, b report.Timestamp) report.Timestamp {
	if a.IsZero() || !b.IsZero() && b.Before(a.Time) {
		return b
	}
	return a
}
