package trace

import (
	"errors"
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Checker checks the events of one run of a sidecar, one after another.
type Checker struct {
	node    *nodeState
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
		return c.term.Apply(e)
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

// termState is the memory of a Leader.
type termState struct {
	Leader  Leader
	Wrote   bool
	Due     []protocol.Record
	Pending []pending
}

// state returns the memory, to go on with later.
func (c *Checker) state() *Resumed {
	out := &Resumed{Problem: c.problem, Node: *c.node}
	if l := c.term; l != nil {
		out.Term = &termState{Leader: *l, Wrote: l.wrote, Due: l.due, Pending: l.pending}
	}
	return out
}

func (c *Checker) resume(r *Resumed) error {
	c.node, c.term = new(r.Node), nil
	if t := r.Term; t != nil {
		c.term = new(t.Leader)
		c.term.wrote, c.term.due, c.term.pending = t.Wrote, t.Due, t.Pending
	}
	if r.Problem != "" {
		return fmt.Errorf("before this recording begins: %s", r.Problem)
	}
	return nil
}
