package main

import (
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/httpapi"
)

// warned is a warning in the table: what is wrong where, and which nodes say so.
type warned struct {
	nodes   []string
	reason  string
	local   bool // this node knows it itself, of another one
	since   *time.Time
	message string
}

// warnings are those of this node, and those that the other nodes report. What several nodes
// say in the same words is one row, and so is what this node and another one say of that.
func (t table) warnings(r httpapi.Report) [][]string {
	var all []warned
	add := func(node, reason string, since *time.Time, message string) {
		for i, w := range all {
			switch {
			case w.message == message:
				if !slices.Contains(w.nodes, node) {
					all[i].nodes = append(w.nodes, node)
				}
				all[i].since = earlier(w.since, since)
				return
			case slices.Equal(w.nodes, []string{node}) && w.local && (w.reason == reason && reason != "" || strings.Contains(w.message, message)):
				return // what this node knows of it includes what that one reports
			}
		}
		all = append(all, warned{nodes: []string{node}, reason: reason, since: since, message: message})
	}
	own := func(since *time.Time, message string) {
		all = append(all, warned{nodes: []string{r.Node.ID}, since: since, message: message})
	}
	for _, w := range r.Warnings {
		switch {
		case w.Message == r.Election.Message && w.Subject == "" || isOtherBundle(w): // LEADER or the first row has it
		case w.Subject == "":
			own(w.Since, w.Message)
		default:
			all = append(all, warned{[]string{w.Subject}, w.Reason, true, w.Since, w.Message})
		}
	}
	if p := r.Reconcile.Drift.Problem; p != "" {
		own(nil, "drift: "+p)
	}
	for _, w := range r.Etcd.Warnings {
		own(nil, w)
	}
	for _, n := range r.Fleet.Nodes {
		for _, w := range n.Warnings {
			if n.ID == r.Node.ID {
				continue
			}
			message := w.Message
			if w.Subject != "" {
				message = w.Subject + ": " + message
			}
			add(n.ID, w.Reason, w.Since, message)
		}
	}
	rows := [][]string{{"NODE", "FOR", "WHAT TO DO"}}
	for _, w := range all {
		rows = append(rows, []string{strings.Join(w.nodes, ", "), t.lasting(w.since), w.message})
	}
	return headed(rows)
}

func earlier(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}
