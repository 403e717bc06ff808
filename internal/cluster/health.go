package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// healthPause is the longest pause between two checks of the member's recent measures: a warning
// ends by time.
const healthPause = 30 * time.Second

// Health follows the warnings of this node's etcd member, which the other nodes show too: about its disk, and about
// the cluster as it sees it. RunHealth publishes them.
func (m *Manager) Health() *event.Value[[]protocol.Warning] { return m.health }

// RunHealth publishes the warnings about this node's etcd member until ctx ends.
func (m *Manager) RunHealth(ctx context.Context) error {
	var recent recentHealth
	var before []Observed
	var turn string // of the node that restarts its member for a new CA
	for {
		measures, measured := m.Measures().Load()
		members, membersChanged := m.Members().Load()
		rotation, turnChanged := m.rotation.Load()
		now := time.Now()
		recent = recent.after(measures, now)
		for _, name := range lostMembers(before, members) {
			recent = recent.losing(name, now)
		}
		if memberLeaves(before, members) || rotation.Turn != turn {
			recent = recent.changing(now)
		}
		turn = rotation.Turn
		before = members
		var warnings []protocol.Warning
		if w, slow := recent.diskWarning(now); slow {
			warnings = append(warnings, w)
		}
		if w, many := recent.leaderWarning(now); many {
			warnings = append(warnings, w)
		}
		if !slices.Equal(warnings, m.health.Get()) {
			m.health.Set(warnings)
			for _, w := range warnings {
				m.cfg.Log.Warn("etcd member is in trouble", "reason", string(w.Reason), "message", w.Message)
			}
		}
		if !event.WaitFor(ctx, healthPause, measured, membersChanged, turnChanged) {
			return ctx.Err()
		}
	}
}

// lostMembers returns the members that stopped answering between two observations.
func lostMembers(before, now []Observed) (out []string) {
	for _, m := range now {
		was := slices.IndexFunc(before, func(o Observed) bool { return o.ID == m.ID })
		if was >= 0 && before[was].Healthy && !m.Healthy {
			out = append(out, cmp.Or(m.Node, m.ID))
		}
	}
	return out
}

// memberLeaves reports whether a member began to leave, or left, between two observations. If it led, it handed over.
func memberLeaves(before, now []Observed) bool {
	return slices.ContainsFunc(before, func(was Observed) bool {
		i := slices.IndexFunc(now, func(o Observed) bool { return o.ID == was.ID })
		return i < 0 || was.LeavingSince.IsZero() && !now[i].LeavingSince.IsZero()
	})
}
