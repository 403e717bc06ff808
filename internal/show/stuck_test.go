package show

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// A node that waits for long before its member leaves, or is one, says so to the others. A moment is usual.
func TestStuck(t *testing.T) {
	running := cluster.Status{State: cluster.Running, Problem: "etcd refuses it", StuckSince: observedAt}
	joins := running
	joins.State = cluster.JoiningCluster
	for name, tt := range map[string]struct {
		status cluster.Status
		phase  membership.Phase
		after  time.Duration
		want   protocol.Reason
	}{
		"it leaves":            {running, membership.Leaving, interruptedAfter, warn.RemovalInterrupted},
		"it is added":          {running, membership.Adding, interruptedAfter, warn.MemberDown},
		"for a moment":         {running, membership.Adding, interruptedAfter - 1, ""},
		"a working member":     {running, membership.Working, time.Hour, ""},
		"nothing is wrong":     {cluster.Status{State: cluster.Running}, membership.Adding, time.Hour, ""},
		"it joins its cluster": {joins, membership.PhaseUnset, time.Hour, ""},
	} {
		got := stuck(observedAt.Add(tt.after), tt.status, tt.phase)
		if (len(got) == 1) != (tt.want != "") {
			t.Errorf("%s: got %+v", name, got)
			continue
		}
		for _, w := range got {
			if w.Reason != tt.want || !w.Since.Equal(observedAt) || !strings.HasSuffix(w.Message, ": etcd refuses it") || w.Subject != "" {
				t.Errorf("%s: got %+v", name, w)
			}
		}
	}
}

// A node that leaves by itself, also after it got its role back, reports why that waits: nothing is to be typed for it.
func TestMemberWarnings_leavesItself(t *testing.T) {
	own := stuck(observedAt.Add(time.Hour), cluster.Status{State: cluster.Running, Problem: "etcd refuses it", StuckSince: observedAt}, membership.Leaving)
	facts := memberFacts{
		own:     "a",
		members: []cluster.Observed{{Member: report.Member{ID: "2", Node: "b"}, LeavingSince: report.At(observedAt)}},
		fleet: protocol.Fleet{Records: []*protocol.Record{{
			ID: "b", Alive: true, Node: protocol.Node{Roles: protocol.Roles{Consensus: true}}, Presence: protocol.Presence{Warnings: own},
		}}},
	}
	got := facts.interrupted(observedAt.Add(time.Hour))
	if len(got) != 1 || got[0].Subject != "b" || !strings.HasSuffix(got[0].Message, "its sidecar goes on with it: etcd refuses it") || strings.Contains(got[0].Message, "type:") {
		t.Errorf("got %+v", got)
	}
	if facts.own = "b"; len(facts.interrupted(observedAt.Add(time.Hour))) != 0 {
		t.Error("its own node shows the same twice")
	}
}
