package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// turns are a line for each node that holds a turn, and for each that waits.
func (t table) turns(r report.Turns) []string {
	var out []string
	for _, h := range r.Held {
		line := h.Node + " has the turn" + t.since(h.Since) + byWhom(h.By) + inBrackets(h.Command, h.Message)
		switch {
		case h.Work == "Failed":
			line += "; ITS WORK HAS FAILED: "
			if h.Problem != "" {
				line += h.Problem + "; "
			}
			line += h.Remedy
		case h.Overdue:
			line += "; IT IS OVER ITS LIMIT: " + h.Remedy
		case h.Work == "Done":
			line += "; its work is done, and it has to serve again"
		}
		out = append(out, line)
	}
	for _, w := range r.Waiting {
		line := w.Node + " waits for a turn" + t.since(w.Since) + byWhom(w.By) + inBrackets(w.Message)
		out = append(out, line+": "+cmp.Or(w.Reason, "it is about to get it"))
	}
	return out
}

func inBrackets(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ": ") + ")"
}

func byWhom(who string) string { return prefixed(", by ", who) }

// isTurn reports whether a warning repeats the row TURN.
func isTurn(w report.Warning, turns report.Turns) bool {
	return (w.Reason == string(protocol.TurnFailed) || w.Reason == string(protocol.TurnOverdue)) &&
		slices.ContainsFunc(turns.Held, func(h report.Turn) bool { return h.Node == w.Subject })
}
