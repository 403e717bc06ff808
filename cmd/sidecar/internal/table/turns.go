package table

import (
	"cmp"
	"slices"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// Turns are a line for each node that holds a turn, and for each that waits.
func (t Status) Turns(r report.Turns) []string {
	var out []string
	for _, h := range r.Held {
		what := protocol.Turn{Command: h.Command, Message: h.Message}.What()
		line := h.Node + " has the turn" + t.since(h.Since) + ByWhom(h.By) + terminal.Prefixed(": ", what)
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
			line += "; its work is done, and it has to serve again" + terminal.Prefixed(": ", h.Problem)
		}
		out = append(out, line)
	}
	for _, w := range r.Waiting {
		line := w.Node + " waits for a turn" + t.since(w.Since) + ByWhom(w.By) + terminal.Prefixed(": ", w.Message)
		out = append(out, line+"; "+cmp.Or(w.Reason, "it is about to get it"))
	}
	return out
}

// ByWhom continues a sentence with the person or program that asked; nothing if that is not known.
func ByWhom(who string) string { return terminal.Prefixed(", by ", who) }

// isTurn reports whether a warning repeats the row TURN.
func isTurn(w report.Warning, turns report.Turns) bool {
	return (w.Reason == string(warn.TurnFailed) || w.Reason == string(warn.TurnOverdue)) &&
		slices.ContainsFunc(turns.Held, func(h report.Turn) bool { return h.Node == w.Subject })
}
