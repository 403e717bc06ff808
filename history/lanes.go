package history

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Lane is a row of a picture: a node, or the fleet, over a time. Each rune is a part of that time.
type Lane struct {
	Node  protocol.NodeID // empty: the fleet
	Cells []rune
}

// The runes of a lane.
const (
	Serves   = '█'
	OutOf    = '░' // out of service
	Partly   = '▒' // out of service for some of the time: an entry that joins several outages says no more
	Leads    = 'L' // it began to lead, or led when the time began
	Turns    = 'T' // a turn of planned work began
	Upgrades = '═' // an upgrade or a rollback is under way
	Objects  = '─' // every node serves with its release, and its objects are not complete
	Nothing  = '·'
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

// Lanes draws the entries between two times, in width cells: the fleet first, then a lane for each node. An entry
// that lasted less than a cell still fills one.
func Lanes(entries []Entry, nodes []protocol.NodeID, from, to time.Time, width int) []Lane {
	for _, e := range entries {
		if e.Node != "" && e.Kind != Store {
			nodes = append(slices.Clip(nodes), e.Node)
		}
	}
	nodes = slices.Compact(slices.Sorted(slices.Values(nodes)))
	out := []Lane{{Cells: slices.Repeat([]rune{Nothing}, width)}}
	for _, id := range nodes {
		out = append(out, Lane{id, slices.Repeat([]rune{Serves}, width)})
	}
	p := painter{from, to, width}
	for _, e := range entries {
		lane := slices.Index(nodes, e.Node) + 1
		switch {
		case OfRelease(e):
			p.upgrade(out[0].Cells, e)
		case e.Node != "" && OutOfService(e):
			p.outages(out[lane].Cells, e)
		}
	}
	for _, e := range entries {
		lane := slices.Index(nodes, e.Node) + 1
		switch {
		case e.Kind == Leader:
			p.paint(out[lane].Cells, e, Leads)
		case e.Kind == Turn && !e.Time.Before(from):
			e.Until = e.Time
			p.paint(out[lane].Cells, e, Turns)
		}
	}
	return out
}

type painter struct {
	from, to time.Time
	width    int
}

func (p painter) paint(cells []rune, e Entry, with rune) {
	until := e.Until
	if e.Open() {
		until = p.to
	}
	if until.Before(p.from) || e.Time.After(p.to) {
		return
	}
	first, last := p.cell(e.Time), p.cell(until)
	for i := first; i <= last; i++ {
		cells[i] = with
	}
}

// upgrade paints an upgrade or a rollback. What nodes do later than in its first part has other causes.
func (p painter) upgrade(cells []rune, e Entry) {
	if e.rolledOut() {
		rest := e
		rest.Time, e.Until = e.Spans[0].Until, e.Spans[0].Until
		p.paint(cells, rest, Objects)
	}
	p.paint(cells, e, Upgrades)
}

// outages paints the times of an entry in which a node was out of service. It certainly was at the begin and at the end.
func (p painter) outages(cells []rune, e Entry) {
	for _, s := range e.stretches() {
		part := Entry{Time: s.From, Until: s.Until}
		if !s.partly {
			p.paint(cells, part, OutOf)
			continue
		}
		before := slices.Clone(cells)
		p.paint(cells, part, Partly)
		for i, was := range before {
			if was == OutOf {
				cells[i] = OutOf
			}
		}
		end := e.Until
		if e.Open() {
			end = p.to
		}
		p.paint(cells, Entry{Time: e.Time, Until: e.Time}, OutOf)
		p.paint(cells, Entry{Time: end, Until: end}, OutOf)
	}
}

func (p painter) cell(at time.Time) int {
	whole := max(p.to.Sub(p.from), 1)
	share := float64(at.Sub(p.from)) / float64(whole)
	return min(max(int(share*float64(p.width)), 0), p.width-1)
}
