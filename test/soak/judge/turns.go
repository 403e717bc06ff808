package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// This file judges turns (docs/protocol-nodes.md#turns). The soak never changes the limit of turns,
// and never ends one.

// The rules about turns.
const (
	FewTurns    = "FewTurns"    // at most one node has a turn
	DrainsFirst = "DrainsFirst" // a service stops for its change only when clients have left the node
	InTurn      = "InTurn"      // a node whose gate is closed for its change has the turn
	ServesAgain = "ServesAgain" // a turn does not end while the service that it stopped is not ready
)

const (
	// turnDrain is how long a gate is closed before a service stops for its change.
	turnDrain = 5 * time.Second
	// noticing bounds how long a sidecar, even a paused one, takes to see that its service is ready.
	noticing = 10 * time.Second
)

// Turn is a turn of a node.
type Turn struct {
	Node string
	Gone bool
}

// noteTurn keeps which nodes have a turn, and counts them.
func (j *judging) noteTurn(e *Event) {
	now := slices.DeleteFunc(slices.Clone(j.turns), func(node string) bool { return node == e.Turn.Node })
	if !e.Turn.Gone {
		now = append(now, e.Turn.Node)
	}
	if j.turns = now; len(now) > 1 && !e.Turn.Gone {
		j.fail(FewTurns, e.Revision, "%s takes a turn while %s has one", e.Turn.Node, now[0])
	}
}

// restart is a service that was ready, and that its sidecar started again with another file.
type restart struct {
	node           string
	sidecar        int
	stopped, ready time.Duration // ready: 0 if it was not, before the end
}

// restarts are the restarts because of a changed file, of nodes that kept the controller role.
func (j *judging) restarts() []restart {
	moments := slices.Clone(j.h.Services)
	slices.SortStableFunc(moments, func(a, b ServiceMoment) int { return cmp.Compare(a.At, b.At) })
	of, sidecars := map[int][]ServiceMoment{}, []int{}
	for _, m := range moments {
		if of[m.Sidecar] == nil {
			sidecars = append(sidecars, m.Sidecar)
		}
		of[m.Sidecar] = append(of[m.Sidecar], m)
	}
	var out []restart
	for _, sidecar := range sidecars {
		all := of[sidecar]
		for i := 1; i+1 < len(all); i++ {
			was, stop, next := all[i-1], all[i], all[i+1]
			changed := stop.What == Stopping && next.What == Started && next.Generation != stop.Generation
			if !changed || was.What != Ready || stop.At-was.At < noticing || !j.keepsRole(stop.Node, stop.At-turnDrain, next.At) {
				continue
			}
			r := restart{node: stop.Node, sidecar: sidecar, stopped: stop.At}
			// It may be killed before it is ready, and its sidecar, too.
			ready := func(m ServiceMoment) bool { return m.Node == r.node && m.What == Ready && m.At > stop.At }
			if at := slices.IndexFunc(moments, ready); at >= 0 {
				r.ready = moments[at].At
			}
			out = append(out, r)
		}
	}
	return out
}

// keepsRole reports whether the record of a node certainly has the controller role all the time.
func (j *judging) keepsRole(node string, from, to time.Duration) bool {
	moments := j.between(j.clock.low(from), j.clock.high(to))
	return len(moments) > 0 && !slices.ContainsFunc(moments, func(m moment) bool {
		r := m.records[node]
		return r.Corrupt || !r.Controller
	})
}

// judgeTurns compares each restart with the answers of its sidecar and the turns at that time.
func (j *judging) judgeTurns() {
	for _, r := range j.restarts() {
		j.counts.Restarts++
		reason, asked := protocol.Reason(""), false
		for _, p := range j.h.Probes {
			if p.Sidecar != r.sidecar || p.Sent <= r.stopped-turnDrain || p.Got > r.stopped {
				continue
			}
			if p.Ready {
				j.fail(DrainsFirst, j.clock.low(p.Sent), "%s #%d was ready after %.3fs, and its service stopped for its change at %.3fs",
					p.Node, p.Instance, p.Sent.Seconds(), r.stopped.Seconds())
				break
			}
			reason, asked = p.Reason, true
		}
		// Otherwise it was out for another reason, and needs no turn.
		if asked && reason == protocol.Cordoned {
			j.counts.InTurn++
			j.inTurn(r)
		}
	}
}

// inTurn: a node that is out for its change has the turn until its service is ready.
func (j *judging) inTurn(r restart) {
	if moments := j.between(j.clock.low(r.stopped-turnDrain), j.clock.high(r.stopped)); !slices.ContainsFunc(moments, func(m moment) bool {
		return slices.Contains(m.turns, r.node)
	}) {
		j.fail(InTurn, j.clock.low(r.stopped), "the service of %s stopped for its change at %.3fs, its gate was cordoned, and it did not have the turn",
			r.node, r.stopped.Seconds())
	}
	for i := range j.h.Events {
		e := &j.h.Events[i]
		if e.Turn == nil || !e.Turn.Gone || e.Turn.Node != r.node || j.clock.earliest(e.Revision) < r.stopped {
			continue
		}
		if latest := j.clock.latest(e.Revision); (r.ready == 0 || latest < r.ready) && j.keepsRole(r.node, r.stopped, latest) {
			j.fail(ServesAgain, e.Revision, "the turn of %s ended before %.3fs, and the service that stopped in it at %.3fs was %s",
				r.node, latest.Seconds(), r.stopped.Seconds(), readyAt(r.ready))
		}
		return
	}
}

func readyAt(at time.Duration) string {
	if at == 0 {
		return "never ready"
	}
	return fmt.Sprintf("ready at %.3fs", at.Seconds())
}
