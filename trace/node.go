package trace

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
)

// Node is the gate and the registrar of one run of a sidecar. The zero value has
// just started.
type Node struct {
	published []protocol.Registration // the registrations that the gate may know, from its current one on; nil: any

	gate Gate

	last  protocol.Record // the record that was checked or written last
	read  *Read
	wrote bool // it wrote the record since its registration was withdrawn
	left  bool // it deleted its record, for good
}

// newNode returns the node of a sidecar that has just started.
func newNode() *Node {
	return &Node{
		published: []protocol.Registration{{}},
		last:      protocol.Record{Node: protocol.Node{Roles: protocol.Roles{Controller: true}}},
	}
}

// Gate checks a verdict.
func (n *Node) Gate(g *Gate) error {
	was := n.gate
	n.gate = *g
	f := g.Facts
	known := slices.Index(n.published, f.Registration)
	want := protocol.Judge(f)
	switch {
	case g.Verdict != want:
		return fmt.Errorf("the verdict is %+v, and the protocol says %+v", g.Verdict, want)
	case f.Served != was.Verdict.Admitted():
		return fmt.Errorf("the facts say served=%t, and the verdict before was %+v", f.Served, was.Verdict)
	case was.Facts.Stopping && !f.Stopping, was.Facts.Duplicate != "" && f.Duplicate == "":
		return errors.New("a gate that closed for good opens again")
	case known < 0 && n.published != nil:
		return fmt.Errorf("the facts have the registration %+v, which the registrar has not published since %+v", f.Registration, n.published[0])
	}
	if known > 0 {
		n.published = n.published[known:]
	}
	if f.Registration != was.Facts.Registration {
		was.Facts.Status, was.ReadAt, was.Rewinds = protocol.StatusView{}, 0, 0
	}
	return n.statusRead(&was, g)
}

// statusRead checks that a status in the facts was read after the registration.
func (n *Node) statusRead(was, g *Gate) error {
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

// Read notes the record that a registration replaces.
func (n *Node) Read(r *Read) error {
	n.read = r
	if n.last.Revision == 0 {
		n.last.Node.Roles = r.First
	}
	return nil
}

// Wrote checks a record that was written.
func (n *Node) Wrote(w *Wrote) error {
	want, cordon := n.last.Node.Roles, n.last.Node.Cordon
	switch {
	case n.left:
		return errors.New("it writes its record after it has deleted it")
	case n.read != nil && !n.read.Found && w.Over == 0:
		want, cordon = n.read.First, protocol.Cordon{}
	case n.read != nil && n.read.Found && n.read.Record.Revision == w.Over:
		if n.read.Record.Node.ID == w.Local.ID {
			want, cordon = n.read.Record.Node.Roles, n.read.Record.Node.Cordon
		}
	case w.Over != 0 && w.Over == n.last.Revision:
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
	n.last, n.read, n.wrote = w.Record, nil, true
	return nil
}

// Checked checks a decision whether to register again.
func (n *Node) Checked(c *Checked) error {
	want := noderecord.MustRegister(c.Facts)
	switch {
	case c.Must != want:
		return fmt.Errorf("it decides %t, and the protocol says %t", c.Must, want)
	case !sameRecord(c.Facts.Last, n.last):
		return fmt.Errorf("it compares with %+v, and has checked or written %+v last", c.Facts.Last, n.last)
	}
	n.wrote = n.wrote && !c.Must
	if !c.Must {
		n.last = c.Facts.Record
	}
	return nil
}

// sameRecord compares the parts of a record that a registrar remembers.
func sameRecord(a, b protocol.Record) bool {
	return a.Node.Roles == b.Node.Roles && a.Node.Cordon == b.Node.Cordon &&
		a.Revision == b.Revision && a.Created == b.Created && a.Writes == b.Writes
}

// Published checks a registration that the gate learns.
func (n *Node) Published(p *Published) error {
	r := p.Registration
	n.published = append(n.published, r)
	switch {
	case !r.Matches:
		n.wrote = false
		if r.Revision != 0 {
			return fmt.Errorf("it publishes %+v", r)
		}
		return nil
	case !n.wrote:
		return fmt.Errorf("it publishes %+v, and has not written its record since it withdrew", r)
	case r.Overdue || r.Revision != n.last.Revision || r.Controller != n.last.Node.Roles.Controller || r.Cordon != n.last.Node.Cordon:
		return fmt.Errorf("it publishes %+v, and its record is of revision %d, controller=%t, cordon %+v",
			r, n.last.Revision, n.last.Node.Roles.Controller, n.last.Node.Cordon)
	}
	return nil
}

// Left checks the deletion of the record by its own sidecar.
func (n *Node) Left(l *Left) error {
	switch decision, why := noderecord.Retire(l.Facts); {
	case decision != noderecord.DeleteRecord:
		return fmt.Errorf("it deletes its record, and the protocol says %s: %s", decision, why)
	case n.gate.Verdict.Ready:
		return errors.New("it deletes its record, and its gate is open")
	}
	n.left = true
	return nil
}
