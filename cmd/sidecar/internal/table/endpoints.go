package table

import (
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/report"
)

// endpoints shows the addresses in the Service kubernetes, and why a node is not among them: a line for
// each.
func (t Status) endpoints(s report.Endpoints) []string {
	if !s.Enabled {
		return nil
	}
	first := "the Service kubernetes has no address"
	if len(s.Addresses) > 0 {
		first = "the Service kubernetes has " + strings.Join(s.Addresses, ", ")
	}
	first += t.details(" (revision %d)", s.Revision)
	if s.Reason != "Published" {
		first += "; " + s.Reason + t.since(s.Since) + ": " + s.Message
	}
	first += terminal.Prefixed("; this node cannot write it: ", s.Problem)
	out := []string{first}
	for _, n := range s.Nodes {
		if n.Serves {
			continue
		}
		place := " is not in it ("
		if slices.ContainsFunc(n.Addresses, func(a string) bool { return slices.Contains(s.Addresses, a) }) {
			place = " is in it, and should not be ("
			if s.Reason == "NoneReady" {
				place = " is still in it ("
			}
		}
		out = append(out, n.ID+place+n.Reason+"): "+n.Message)
	}
	return out
}
