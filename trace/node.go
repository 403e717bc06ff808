package trace

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
)

// nodeState is the gate and the registrar of one run of a sidecar. Recordings contain it (Resumed).
type nodeState struct {
	Published []protocol.Registration // the registrations that the gate may know, from its current one on; nil: any

	Gate Gate

	Last  protocol.Record // the record that was checked or written last
	Read  *Read
	Wrote bool // it wrote the record since its registration was withdrawn
	Left  bool // it deleted its record, for good
}

// newNode returns the node of a sidecar that has just started.
func newNode() *nodeState {
	return &nodeState{
		Published: []protocol.Registration{{}},
		Last:      protocol.Record{Node: protocol.Node{Roles: protocol.Roles{Controller: true}}},
	}
}

// verdict checks a verdict.
func (n *nodeState) verdict(g *Gate) error {
	was := n.Gate
	n.Gate = *g
	f := g.Facts
	known := slices.Index(n.Published, f.Registration)
	want := protocol.Judge(f)
	switch {
	case g.Verdict != want:
		return fmt.Errorf("the verdict is %+v, and the protocol says %+v", g.Verdict, want)
	case f.Served != was.Verdict.Admitted():
		return fmt.Errorf("the facts say served=%t, and the verdict before was %+v", f.Served, was.Verdict)
	case was.Facts.Stopping && !f.Stopping, was.Facts.Duplicate != "" && f.Duplicate == "":
		return errors.New("a gate that closed for good opens again")
	case known < 0 && n.Published != nil:
		return fmt.Errorf("the facts have the registration %+v, which the registrar has not published since %+v", f.Registration, n.Published[0])
	}
	if known > 0 {
		n.Published = n.Published[known:]
	}
	if f.Registration != was.Facts.Registration {
		was.Facts.Status, was.ReadAt, was.Rewinds = protocol.StatusView{}, 0, 0
	}
	return n.statusRead(&was, g)
}

// statusRead checks that a status in the facts was read after the registration.
func (n *nodeState) statusRead(was, g *Gate) error {
	f := g.Facts
	switch {
	case f.Status.Kind == protocol.StatusUnknown || f.Status == was.Facts.Status && was.ReadAt != 0:
		return nil
	case !f.Registration.Matches:
		return fmt.Errorf("the facts have the status %s without a registration", f.Status)
	case was.ReadAt == 0 && !g.Linear:
		return fmt.Errorf("the first status since the registration at %d comes from a watch: %s", f.Registration.Revision, f.Status)
	case g.Rewinds == was.Rewinds && g.ReadAt < was.ReadAt:
		return fmt.Errorf("the status was read at revision %d, and the one before at %d", g.ReadAt, was.ReadAt)
	case was.ReadAt == 0 && g.ReadAt < f.Registration.Revision:
		return fmt.Errorf("the status was read at revision %d, before the registration at %d", g.ReadAt, f.Registration.Revision)
	case f.Status.Revision > g.ReadAt:
		return fmt.Errorf("the status of revision %d was read at revision %d", f.Status.Revision, g.ReadAt)
	}
	return nil
}

// read notes the record that a registration replaces.
func (n *nodeState) read(r *Read) error {
	n.Read = r
	if n.Last.Revision == 0 {
		n.Last.Node.Roles = r.First
	}
	return nil
}

// write checks a record that was written.
func (n *nodeState) write(w *Wrote) error {
	want, cordon := n.Last.Node.Roles, n.Last.Node.Cordon
	switch {
	case n.Left:
		return errors.New("it writes its record after it has deleted it")
	case n.Read != nil && !n.Read.Found && w.Over == 0:
		want, cordon = n.Read.First, protocol.Cordon{}
	case n.Read != nil && n.Read.Found && n.Read.Record.Revision == w.Over:
		if n.Read.Record.Node.ID == w.Local.ID {
			want, cordon = n.Read.Record.Node.Roles, n.Read.Record.Node.Cordon
		}
	case w.Over != 0 && w.Over == n.Last.Revision:
	default:
		return fmt.Errorf("it replaces the record of revision %d, which it has not read", w.Over)
	}
	switch {
	case w.Record.Node.Roles != want:
		return fmt.Errorf("it writes the roles %v, want %v", w.Record.Node.Roles.Names(), want.Names())
	case w.Record.Node.Cordon != cordon && (w.Record.Node.Cordon.On() || cordon.Until.IsZero()):
		return fmt.Errorf("it writes the cordon %+v over %+v", w.Record.Node.Cordon, cordon)
	case !noderecord.RecordMatches(w.Record, w.Local, w.BootID):
		return fmt.Errorf("it writes the record %+v, and runs %+v", w.Record.Node, w.Local)
	}
	n.Last, n.Read, n.Wrote = w.Record, nil, true
	return nil
}

// check checks a decision whether to register again.
func (n *nodeState) check(c *Checked) error {
	want := noderecord.MustRegister(c.Facts)
	switch {
	case c.Must != want:
		return fmt.Errorf("it decides %t, and the protocol says %t", c.Must, want)
	case !sameRecord(c.Facts.Last, n.Last):
		return fmt.Errorf("it compares with %+v, and has checked or written %+v last", c.Facts.Last, n.Last)
	}
	n.Wrote = n.Wrote && !c.Must
	if !c.Must {
		n.Last = c.Facts.Record
	}
	return nil
}

// sameRecord compares the parts of a record that a registrar remembers.
func sameRecord(a, b protocol.Record) bool {
	return a.Node.Roles == b.Node.Roles && a.Node.Cordon == b.Node.Cordon &&
		a.Revision == b.Revision && a.Created == b.Created && a.Writes == b.Writes
}

// publish checks a registration that the gate learns.
func (n *nodeState) publish(p *Published) error {
	r := p.Registration
	n.Published = append(n.Published, r)
	switch {
	case !r.Matches:
		n.Wrote = false
		if r.Revision != 0 {
			return fmt.Errorf("it publishes %+v", r)
		}
		return nil
	case !n.Wrote:
		return fmt.Errorf("it publishes %+v, and has not written its record since it withdrew", r)
	case r.Overdue || r.Revision != n.Last.Revision || r.Controller != n.Last.Node.Roles.Controller || r.Cordon != n.Last.Node.Cordon:
		return fmt.Errorf("it publishes %+v, and its record is of revision %d, controller=%t, cordon %+v",
			r, n.Last.Revision, n.Last.Node.Roles.Controller, n.Last.Node.Cordon)
	}
	return nil
}

// leave checks the deletion of the record by its own sidecar.
func (n *nodeState) leave(l *Left) error {
	switch decision, why := noderecord.Retire(l.Facts); {
	case decision != noderecord.DeleteRecord:
		return fmt.Errorf("it deletes its record, and the protocol says %s: %s", decision, why)
	case n.Gate.Verdict.Ready:
		return errors.New("it deletes its record, and its gate is open")
	}
	n.Left = true
	return nil
}
