package trace

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Checker checks the events of one run of a sidecar, one after another.
type Checker struct {
	node    *Node
	term    *Leader // nil: it does not lead
	problem string
}

// newChecker returns the checker of a sidecar that has just started.
func newChecker() *Checker { return &Checker{node: newNode()} }

// Apply returns why the protocol does not allow an event; nil: it does.
func (c *Checker) Apply(e Event) error {
	switch {
	case e.Resumed != nil:
		return c.resume(e.Resumed)
	case e.Elected != nil && c.term != nil:
		return errors.New("a term begins within another")
	case e.Elected != nil:
		c.term = &Leader{Epoch: e.Elected.Epoch, DrainTime: e.Elected.DrainTime}
		return nil
	case e.ofLeader() && c.term == nil:
		return errors.New("there is no term")
	case e.Over != nil:
		job := c.term.Job
		c.term = nil
		if job != nil && !e.Over.Stuck {
			return fmt.Errorf("the term ends, and %s runs", job.Kind)
		}
		return nil
	case e.ofLeader():
		_, err := c.term.Apply(e)
		return err
	}
	return c.node.apply(e)
}

// Resumed is the state before the first event of a recording whose older part was dropped.
type Resumed struct {
	Node nodeState
	Term *termState // nil: it did not lead
	// Problem says how the dropped part violates the protocol; empty: it does not.
	Problem string
}

// nodeState and termState are the memory of a Node and of a Leader.
type (
	nodeState struct {
		Published   []protocol.Registration
		Gate        Gate
		Last        protocol.Record
		Read        *Read
		Wrote, Left bool
	}
	termState struct {
		Leader  Leader
		Wrote   bool
		Due     []protocol.Record
		Pending []pendingState
	}
	pendingState struct {
		Content protocol.Content
		Until   time.Duration
	}
)

// state returns the memory, to go on with later.
func (c *Checker) state() *Resumed {
	n := c.node
	out := &Resumed{Problem: c.problem, Node: nodeState{
		Published: n.published, Gate: n.gate, Last: n.last, Read: n.read, Wrote: n.wrote, Left: n.left,
	}}
	if l := c.term; l != nil {
		out.Term = &termState{Leader: *l, Wrote: l.wrote, Due: l.due}
		for _, p := range l.pending {
			out.Term.Pending = append(out.Term.Pending, pendingState{p.content, p.until})
		}
	}
	return out
}

func (c *Checker) resume(r *Resumed) error {
	n := r.Node
	c.node = &Node{published: n.Published, gate: n.Gate, last: n.Last, read: n.Read, wrote: n.Wrote, left: n.Left}
	c.term = nil
	if t := r.Term; t != nil {
		l := t.Leader
		l.wrote, l.due = t.Wrote, t.Due
		for _, p := range t.Pending {
			l.pending = append(l.pending, pending{p.Content, p.Until})
		}
		c.term = &l
	}
	if r.Problem != "" {
		return fmt.Errorf("before this recording begins: %s", r.Problem)
	}
	return nil
}
