package soak

import (
	"context"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/soak/judge"
)

// This file moves roles: two of five members of etcd leave and return, and nodes lose the
// controller role and get it back.

// placed lists the nodes without a role, as the plan wants it.
type placed struct{ members, controllers []int }

// movesEvery is how often a step moves the nodes to another release.
const movesEvery = 3

// nextPlace makes a step a change of roles, or a move to another release: two upgrades, and then a
// rollback, so that ten minutes of any seed have several.
func (p *plan) nextPlace(s step) step {
	s.settle = p.rng.IntN(3) > 0
	if p.steps++; p.steps%movesEvery == 0 {
		s.pause = 0
		return p.nextMove(s, p.steps%(3*movesEvery) > 0)
	}
	kind := 1 + p.rng.IntN(8)
	s.action, s.role = place, protocol.RoleConsensus
	lacking, most := &p.roles.members, 2
	if kind > 5 {
		s.role, lacking, most = protocol.RoleController, &p.roles.controllers, 1+p.rng.IntN(3)
	}
	if len(*lacking) > 0 {
		s.gives, s.order, *lacking = true, *lacking, nil
		return s
	}
	s.order = s.order[:most]
	*lacking = s.order
	return s
}

func (s step) names() []string {
	var out []string
	for _, i := range s.order {
		out = append(out, nodeNames[i])
	}
	return out
}

const (
	// persuading is how long an administrator repeats a command that is refused.
	persuading = 20 * time.Second
	// agreeing is how long a calm lasts at most: nodes must match their records
	// before it ends.
	agreeing = judge.Agreeing + 4*time.Second
)

// place gives a role to nodes, or takes it.
func (w *world) place(ctx context.Context, s step) {
	for _, i := range s.order {
		w.setRole(ctx, w.nodes[i], s.role, s.gives)
	}
	if s.settle {
		w.calmDown(ctx)
		return
	}
	pause(ctx, s.pause/2)
}

// setRole types the command until it succeeds, or for a while. A refusal is right while
// other members are down.
func (w *world) setRole(ctx context.Context, n *node, role string, gives bool) {
	ctx, cancel := context.WithTimeout(ctx, persuading)
	defer cancel()
	flag := map[bool]string{true: "--add=", false: "--remove="}[gives]
	err := cluster.Poll(ctx, func(ctx context.Context) error {
		take := judge.Take{Node: n.name(), Sent: w.rec.now()}
		err := w.command(ctx, "node", "set-roles", n.name(), flag+role)
		if take.Got = w.rec.now(); err == nil && !gives && role == protocol.RoleConsensus {
			w.rec.add(func(h *judge.History) { h.Takes = append(h.Takes, take) })
		}
		return err
	})
	if err != nil {
		w.addCount("refused: " + strings.Trim(flag, "-=") + " " + role)
		w.logf("%v", err)
	}
}

// calmDown waits until no fault is under way, and then, without any, until all nodes match
// their records. The judge decides whether that took too long.
func (w *world) calmDown(ctx context.Context) {
	w.calm.Lock()
	defer w.calm.Unlock()
	ctx, cancel := context.WithTimeout(ctx, agreeing)
	defer cancel()
	calm := judge.Span{From: w.rec.now()}
	err := cluster.Poll(ctx, w.asRecorded)
	calm.To = w.rec.now()
	w.rec.add(func(h *judge.History) { h.Calms = append(h.Calms, calm) })
	if err != nil {
		w.logf("not all nodes are what their records have after %s without faults: %v", calm.To-calm.From, err)
		return
	}
	w.addCount("settled: roles")
	w.logf("all nodes are what their records have, %s after the last fault", (calm.To - calm.From).Round(time.Millisecond))
}
