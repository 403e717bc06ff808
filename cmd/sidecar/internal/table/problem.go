package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// mostProblems bounds the row PROBLEM: the rows that it names have the rest.
const mostProblems = 6

// problems are the first row if a part is down now, on any node: that part, its node, and the row that says more.
func (t Status) problems(r report.Status) [][]string {
	other, down := otherBundle(r), downHere(r)
	for _, p := range downElsewhere(r) {
		down = append(down, p+" (see WARNINGS)")
	}
	if n := len(down) - mostProblems; n > 0 {
		down = append(down[:mostProblems], fmt.Sprintf("and %d more", n))
	}
	if len(down) == 0 {
		return other
	}
	return append(other, titled("PROBLEM", []string{joinProblems(down)})...)
}

// joinProblems joins problems, and names a row once for those beside each other that refer to it.
func joinProblems(down []string) string {
	for i, p := range down[:len(down)-1] {
		text, see, found := strings.Cut(p, " (see ")
		if found && strings.HasSuffix(down[i+1], " (see "+see) {
			down[i] = text
		}
	}
	return strings.Join(down, "; ")
}

// downHere lists the problems that other rows show of this node.
func downHere(r report.Status) []string {
	var out []string
	full := func(o report.Obstacle) bool { return o.Reason == string(warn.EtcdFull) }
	switch {
	case !r.Etcd.Connected && r.Etcd.LastContact.IsZero() && r.Etcd.Problem == "": // it was just started
	case !r.Etcd.Connected && r.Etcd.LastContact.IsZero():
		out = append(out, "etcd was not reached yet (see ETCD)")
	case !r.Etcd.Connected:
		out = append(out, "etcd does not answer (see ETCD)")
	case slices.ContainsFunc(r.UpgradeObstacles, full):
		out = append(out, "etcd is full (see ETCD)")
	}
	atRest := []string{string(protocol.Starting), string(protocol.NotController)}
	switch {
	case !r.Ready.Ready && !slices.Contains(atRest, r.Ready.Reason), r.Ready.Ready && !r.Ready.Serves && r.Ready.ServesReason != "":
		out = append(out, "this node does not serve (see GATE)")
	case r.Election.State == string(protocol.Withdrawn):
		out = append(out, "this node has withdrawn from the election (see LEADER)")
	}
	if n := r.Reconcile.TotalFailures; n > 0 && r.Election.State == string(protocol.Leading) {
		out = append(out, fmt.Sprintf("%s cannot be applied (see FAILURES)", terminal.Count(n, "object")))
	}
	return out
}

// downElsewhere lists the warnings that something is down, except those that repeat downHere.
func downElsewhere(r report.Status) []string {
	type problem struct {
		text  string
		nodes []string
	}
	var found []problem
	for _, w := range allWarned(r) {
		if w.rank >= warn.Risk.Rank() || ofGate(r, w) {
			continue
		}
		text := cmp.Or(shortProblem[protocol.Reason(w.reason)], w.reason)
		nodes := slices.DeleteFunc(slices.Clone(w.nodes), func(id string) bool { return id == noNode })
		if i := slices.IndexFunc(found, func(p problem) bool { return p.text == text }); i >= 0 {
			found[i].nodes = appendMissing(found[i].nodes, nodes)
			continue
		}
		found = append(found, problem{text, nodes})
	}
	out := make([]string, 0, len(found))
	for _, p := range found {
		text := p.text
		if len(p.nodes) > 0 {
			text = strings.Join(p.nodes, ", ") + ": " + text
		}
		out = append(out, text)
	}
	return out
}

// ofGate reports whether a warning of this node alone is the reason that its GATE shows.
func ofGate(r report.Status, w warned) bool {
	return slices.Equal(w.nodes, []string{r.Node.ID}) && (w.reason == r.Ready.ServesReason || w.reason == r.Ready.Reason)
}

func appendMissing(to, more []string) []string {
	for _, one := range more {
		if !slices.Contains(to, one) {
			to = append(to, one)
		}
	}
	return to
}

// shortProblem is a warning in the row PROBLEM, by its reason.
var shortProblem = map[protocol.Reason]string{
	warn.NodeDead:              "not alive",
	warn.MemberDown:            "etcd member does not serve",
	warn.NoLeader:              "no node leads",
	warn.Outage:                "no node serves",
	warn.NoGate:                "reports no gate",
	warn.GateClosed:            "gate is closed",
	warn.EtcdFull:              "etcd is full",
	warn.ObjectFailed:          "objects cannot be applied",
	protocol.Cordoned:          "cordoned",
	protocol.APIServerNotReady: "does not serve",
	protocol.ServiceFailing:    "a service has ended",
	protocol.ServiceNotReady:   "a service is not ready",
	protocol.APIUnreachable:    "kube-apiserver cannot be used",
	protocol.APIRefused:        "kube-apiserver refuses the sidecar",
	protocol.DuplicateNodeID:   "two sidecars have this node ID",
	protocol.StatusCorrupt:     "the status is corrupt",
	protocol.OtherStore:        "sidecars of another etcd write the Service kubernetes",
	protocol.ReconcilerRuns:    "a kube-apiserver writes the Service kubernetes",
	protocol.OtherWriter:       "another client writes the Service kubernetes",
}
