package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// This file lets the steps be taken by which a node becomes a member and leaves while
// everything runs (docs/protocol-membership.md#membership). The worker in package role asks the protocol
// which one is next.

// ErrNotRunning is returned for a step while this node is not in its cluster.
var ErrNotRunning = errors.New("this node is not in its cluster")

// Trouble shows, while the state is Running, why the next step about the member is not taken, or
// waits; empty: nothing is wrong.
func (m *Manager) Trouble(problem string) {
	if m.status.Get().Problem != problem {
		event.Update(m.status, func(s Status) Status {
			switch {
			case problem == "":
				s.StuckSince = time.Time{}
			case s.StuckSince.IsZero():
				s.StuckSince = time.Now()
			}
			s.Problem = problem
			return s
		})
	}
}

// step runs do with the change of the node.
func (m *Manager) step(ctx context.Context, do func(context.Context, *change) error) error {
	n := m.node.Load()
	if n == nil {
		return ErrNotRunning
	}
	return n.step(ctx, do)
}

// MemberFacts returns the facts about this node's member; the caller sets Known and
// Wanted. If the members do not answer, Listed stays unknown, and the error reports
// why.
func (m *Manager) MemberFacts(ctx context.Context) (facts membership.Facts, err error) {
	err = m.step(ctx, func(ctx context.Context, c *change) error {
		facts, err = c.facts(ctx)
		return err
	})
	return facts, err
}

// TakeMemberStep takes a step about this node's member. It may be taken again after an
// error, and after the process was killed anywhere in it.
func (m *Manager) TakeMemberStep(ctx context.Context, s membership.Step) error {
	return m.step(ctx, func(ctx context.Context, c *change) error {
		err := c.take(ctx, s)
		if err == nil {
			m.Trouble("")
			m.log.Debug("step done", "flow", "change", "step", s.String())
			afterStep("change", s.String())
		}
		return err
	})
}
