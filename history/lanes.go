package history

import (
	"maps"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// Picture is what Lanes draws: what happened between two times, in Width cells.
type Picture struct {
	Entries  []Entry                    // the newest last; earlier ones say what was when it begins
	Releases map[protocol.NodeID]string // of the nodes that are registered now
	Status   string                     // now, as Brief formats it
	Node     protocol.NodeID            // the only node to draw; empty: all
	From, To time.Time
	Width    int
}

// Lane is a row of a picture. Each rune is a part of its time.
type Lane struct {
	Name    string // of a node, or one of the names below
	Cells   []rune
	Release string // of a node, now; empty: it is not registered
}

// The names of the lanes that are of no node.
const (
	FleetLane  = "fleet"  // upgrades and rollbacks, with their durations
	StatusLane = "status" // the reconciler status
)

// The runes of a lane. Besides, a lane has names: of a release, a status or an upgrade, where they are free of marks.
const (
	Serves   = '█'
	OutOf    = '░' // out of service
	Partly   = '▒' // out of service for some of the time: an entry that joins several outages says no more
	Leads    = 'L' // it began to lead, or led when the time began
	Turns    = 'T' // a turn of planned work began
	Fails    = 'F' // the work of a turn failed
	Upgrades = '═' // an upgrade or a rollback is under way
	Objects  = '─' // every node serves with its release, and its objects are not complete
	Nothing  = '·' // also: the status is DONE
	Working  = '~' // the status is WORKING
	Unknown  = ' ' // no valid status
)

// OutOfService reports whether a node is out of service while an entry lasts.
func OutOfService(e Entry) bool {
	switch e.Kind {
	case Gate, APIServer, Sidecar:
		return true
	case Node:
		return e.Reason == protocol.NoPresence
	case Etcd, Service, Warning, Object, Bundle, Override, Cordon, Turn, Leader, Status, Blocked, Upgrade, Rollback, Member, Store:
	}
	return false
}

// Lanes draws the lanes of the fleet and of the status, then one for each node. An entry that lasted less than a cell
// still fills one.
func (p Picture) Lanes() []Lane {
	within := slices.DeleteFunc(slices.Clone(p.Entries), func(e Entry) bool {
		return !e.Open() && e.Until.Before(p.From) || e.Time.After(p.To)
	})
	w := painter{p.From, p.To, p.Width}
	out := []Lane{{Name: FleetLane, Cells: w.changes(within)}, {Name: StatusLane, Cells: w.status(statusPieces(p))}}
	for _, id := range p.nodes(within) {
		cells := slices.Repeat([]rune{Serves}, p.Width)
		for _, e := range within {
			if e.Node == id && OutOfService(e) {
				w.outages(cells, e)
			}
		}
		w.marks(cells, id, within)
		w.releases(cells, releasePieces(p, id))
		out = append(out, Lane{string(id), cells, p.Releases[id]})
	}
	return out
}

// nodes are those that are registered, and those with entries.
func (p Picture) nodes(within []Entry) []protocol.NodeID {
	if p.Node != "" {
		return []protocol.NodeID{p.Node}
	}
	ids := slices.Collect(maps.Keys(p.Releases))
	for _, e := range within {
		if e.Node != "" && e.Kind != Store {
			ids = append(ids, e.Node)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// marks paints where a node began to lead, its turns, and where their work failed.
func (p painter) marks(cells []rune, id protocol.NodeID, within []Entry) {
	for _, e := range within {
		switch {
		case e.Node != id:
		case e.Kind == Leader:
			p.paint(cells, e.whole(), Leads)
		case e.Kind == Turn && !e.Time.Before(p.from):
			mark := Turns
			if e.Reason == warn.TurnFailed {
				mark = Fails
			}
			p.paint(cells, Span{e.Time, e.Time}, mark)
		}
	}
}

type painter struct {
	from, to time.Time
	width    int
}

func (p painter) paint(cells []rune, s Span, with rune) {
	until := s.end(p.to)
	if until.Before(p.from) || s.From.After(p.to) {
		return
	}
	first, last := p.cell(s.From), p.cell(until)
	for i := first; i <= last; i++ {
		cells[i] = with
	}
}

// outages paints the times of an entry in which a node was out of service. It certainly was at the begin and at the end.
func (p painter) outages(cells []rune, e Entry) {
	for _, s := range e.stretches() {
		if !s.partly {
			p.paint(cells, s.Span, OutOf)
			continue
		}
		before := slices.Clone(cells)
		p.paint(cells, s.Span, Partly)
		for i, was := range before {
			if was == OutOf {
				cells[i] = OutOf
			}
		}
		end := e.End(p.to)
		p.paint(cells, Span{e.Time, e.Time}, OutOf)
		p.paint(cells, Span{end, end}, OutOf)
	}
}

func (p painter) cell(at time.Time) int {
	whole := max(p.to.Sub(p.from), 1)
	share := float64(at.Sub(p.from)) / float64(whole)
	return min(max(int(share*float64(p.width)), 0), p.width-1)
}
