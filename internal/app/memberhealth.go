package app

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// memberWarnings are the warnings about this node's etcd member.
type memberWarnings struct {
	reported []protocol.Warning // of this node
	shown    []protocol.Warning // of the whole cluster: each member sees them by itself
}

func (w memberWarnings) equal(o memberWarnings) bool {
	return slices.Equal(w.reported, o.reported) && slices.Equal(w.shown, o.shown)
}

// healthPause is the longest pause between two checks of the member's recent measures: a warning
// ends by time.
const healthPause = 30 * time.Second

// watchMember publishes the warnings about this node's etcd member until ctx ends.
func (a *App) watchMember(ctx context.Context) error {
	var health membership.Health
	var before []cluster.Observed
	for {
		measures, measured := a.cluster.Measures().Load()
		members, membersChanged := a.cluster.Members().Load()
		now := time.Now()
		health = health.After(measures, now)
		for _, name := range lostMembers(before, members) {
			health = health.Lost(name, now)
		}
		before = members
		var warnings memberWarnings
		if w, slow := health.Disk(now); slow {
			warnings.reported = []protocol.Warning{w}
		}
		if w, many := health.LeaderChanges(now); many {
			warnings.shown = []protocol.Warning{w}
		}
		if !warnings.equal(a.memberHealth.Get()) {
			a.memberHealth.Set(warnings)
			for _, w := range slices.Concat(warnings.reported, warnings.shown) {
				a.log.Warn("etcd member is in trouble", "reason", string(w.Reason), "message", w.Message)
			}
		}
		limited, cancel := context.WithTimeout(ctx, healthPause)
		event.Wait(limited, measured, membersChanged)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// lostMembers returns the members that stopped answering between two observations.
func lostMembers(before, now []cluster.Observed) (out []string) {
	for _, m := range now {
		was := slices.IndexFunc(before, func(o cluster.Observed) bool { return o.ID == m.ID })
		if was >= 0 && before[was].Healthy && !m.Healthy {
			out = append(out, cmp.Or(m.Node, m.ID))
		}
	}
	return out
}
