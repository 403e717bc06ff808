package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lockstep-dev/lockstep/report"
)

// turns are a line for each node that holds a turn, and for each that waits.
func (t table) turns(r report.Turns) []string {
	var out []string
	for _, h := range r.Held {
		line := h.Node + " has the turn" + t.since(h.Since)
		if what := forWhat(h.Command, h.Message); what != "" {
			line += " for " + what
		}
		line += byWhom(h.By)
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
		line := w.Node + " waits for a turn" + t.since(w.Since)
		if w.Message != "" {
			line += " for " + w.Message
		}
		out = append(out, line+byWhom(w.By)+": "+cmp.Or(w.Reason, "it is about to get it"))
	}
	return out
}

func forWhat(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	if len(out) == 2 {
		return fmt.Sprintf("%s (%s)", out[0], out[1])
	}
	return strings.Join(out, "")
}

func byWhom(who string) string {
	if who == "" {
		return ""
	}
	return ", by " + who
}
