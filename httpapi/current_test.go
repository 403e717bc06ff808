package httpapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// A gate that has just opened is not closed in FLEET and for UPGRADE, although the presence is older. A sidecar
// with another's ID does not speak for the presence.
func TestNewStatus_ownGate(t *testing.T) {
	old := &protocol.Record{ID: "c", Alive: true, Node: protocol.Node{ID: "c", Roles: protocol.Roles{Controller: true}}}
	old.Presence = protocol.Presence{Reason: protocol.NotRegistered, Election: protocol.Leading}
	s := Snapshot{Local: protocol.Local{ID: "c"}, Fleet: protocol.Fleet{Revision: 1, Records: []*protocol.Record{old}}}
	s.Etcd.Connected = true
	for reason, want := range map[protocol.Reason]protocol.Reason{
		protocol.Ready: protocol.Ready, protocol.Fenced: protocol.Fenced, protocol.DuplicateNodeID: protocol.NotRegistered, "": protocol.NotRegistered,
	} {
		s.Gate = Gate{Verdict: protocol.Verdict{Ready: reason == protocol.Ready, Reason: reason}, Since: epochTime}
		got := NewStatus(s)
		row := got.Fleet.Nodes[0]
		if row.Reason != string(want) || row.Ready != (want == protocol.Ready) || row.ServesSince.IsZero() != (want == protocol.NotRegistered) {
			t.Errorf("%s: got %+v", reason, row)
		}
		closed := false
		for _, o := range got.UpgradeObstacles {
			closed = closed || o.Reason == string(warn.GateClosed)
		}
		if closed != (want != protocol.Ready) {
			t.Errorf("%s: got obstacles %+v", reason, got.UpgradeObstacles)
		}
	}
	if old.Presence.Reason != protocol.NotRegistered {
		t.Error("the fleet of the snapshot was changed")
	}
}

// The same holds for its kube-apiserver: FLEET does not say that it serves while `serves` says that it does not.
func TestNewStatus_ownAPIServer(t *testing.T) {
	own := &protocol.Record{ID: "c", Alive: true, Node: protocol.Node{ID: "c", Roles: protocol.Roles{Controller: true}}}
	own.Presence = protocol.Presence{Ready: true, Reason: protocol.Ready}
	s := Snapshot{Local: protocol.Local{ID: "c"}, Fleet: protocol.Fleet{Revision: 1, Records: []*protocol.Record{own}}}
	s.Gate = Gate{Verdict: protocol.Verdict{Ready: true, Reason: protocol.Ready}, Since: epochTime}
	for _, ready := range []bool{false, true} {
		s.APIServer.Enabled, s.APIServer.Ready, own.Presence.APIServerDown = true, ready, ready
		if got := NewStatus(s); got.Ready.Serves != ready || got.Fleet.Nodes[0].Serves != ready {
			t.Errorf("ready: %v: got %v, and %v in the fleet", ready, got.Ready.Serves, got.Fleet.Nodes[0].Serves)
		}
	}
}

// The warnings follow the fleet: a node that FLEET lists no more has none, and one that is alive again is not missing.
func TestNewStatus_removedNode(t *testing.T) {
	s := Snapshot{Fleet: protocol.Fleet{Revision: 1, Records: []*protocol.Record{{ID: "c", Alive: true}}}, Warnings: []protocol.Warning{
		{Reason: warn.NodeDead, Subject: "c"},
		{Reason: warn.NodeDead, Subject: "b"}, {Reason: warn.MemberDown, Subject: "b"}, {Reason: protocol.APIServerNotReady},
	}}
	if got := NewStatus(s).Warnings; len(got) != 2 || got[0].Reason != string(warn.MemberDown) {
		t.Errorf("got %+v", got)
	}
	s.Fleet = protocol.Fleet{}
	if len(NewStatus(s).Warnings) != 4 {
		t.Error("a fleet that was not read yet says that nodes were deleted")
	}
}

// Warnings are some moments older than the fleet, from which UPGRADE follows: those that it no longer shows are over.
func TestNewStatus_warningsAreOver(t *testing.T) {
	b := &protocol.Record{ID: "b", Alive: true, Node: protocol.Node{ID: "b", Roles: protocol.Roles{Controller: true}}}
	b.Presence = protocol.Presence{Reason: protocol.ShuttingDown}
	closed := protocol.Fleet{Revision: 1, Records: []*protocol.Record{b}, Rollback: protocol.Rollback{To: protocol.Release{Major: 1}, Revision: 1}}
	gone := *b
	gone.Alive = false
	warnings := []protocol.Warning{{Reason: protocol.RollingBack}, {Reason: warn.GateClosed, Subject: "b"}, {Reason: protocol.APIServerNotReady}}
	for name, tc := range map[string]struct {
		fleet protocol.Fleet
		want  int
	}{
		"as it was":     {closed, 3},
		"it is stopped": {protocol.Fleet{Revision: 2, Records: []*protocol.Record{&gone}, Rollback: closed.Rollback}, 2},
		"rolled back":   {protocol.Fleet{Revision: 2, Records: closed.Records}, 2},
	} {
		got := NewStatus(Snapshot{Fleet: tc.fleet, Warnings: warnings})
		notReady := func(w report.Warning) bool { return w.Reason == string(protocol.APIServerNotReady) }
		if len(got.Warnings) != tc.want || !slices.ContainsFunc(got.Warnings, notReady) {
			t.Errorf("%s: got %+v", name, got.Warnings)
		}
	}
}

// A node that has just begun to lead does not say of itself that no node leads, although its presence does not say so yet.
func TestNewStatus_ownLeadership(t *testing.T) {
	own := &protocol.Record{ID: "c", Alive: true, Node: protocol.Node{ID: "c", Roles: protocol.Roles{Controller: true}}}
	own.Presence = protocol.Presence{Ready: true, Reason: protocol.Ready, Election: protocol.Campaigning}
	s := Snapshot{Local: protocol.Local{ID: "c"}, Fleet: protocol.Fleet{Revision: 1, Records: []*protocol.Record{own}}}
	s.Gate = Gate{Verdict: protocol.Verdict{Ready: true, Reason: protocol.Ready}, Since: epochTime}
	s.Etcd.Connected = true
	s.Warnings = []protocol.Warning{{Reason: warn.NoLeader, Message: "no node leads"}}
	for election, leads := range map[protocol.ElectionState]bool{protocol.Campaigning: false, protocol.Leading: true} {
		s.Election.State = election
		got := NewStatus(s)
		none := slices.ContainsFunc(got.UpgradeObstacles, func(o report.Obstacle) bool { return o.Reason == string(warn.NoLeader) })
		if none == leads || (len(got.Warnings) == 0) != leads || got.Fleet.Nodes[0].Election != string(election) {
			t.Errorf("%s: got obstacles %+v, warnings %+v, %s in the fleet", election, got.UpgradeObstacles, got.Warnings, got.Fleet.Nodes[0].Election)
		}
	}
}

// UPGRADE does not propose to remove a node that may be restarting.
func TestNewStatus_restarts(t *testing.T) {
	b := &protocol.Record{ID: "b", Node: protocol.Node{ID: "b", Roles: protocol.Roles{Controller: true}}}
	s := Snapshot{Fleet: protocol.Fleet{Revision: 1, Records: []*protocol.Record{b}}}
	s.Etcd.Connected = true
	for _, restarts := range []bool{true, false} {
		s.Sightings = map[protocol.NodeID]Sighting{"b": {Alive: epochTime, MayRestart: restarts}}
		for _, o := range NewStatus(s).UpgradeObstacles {
			if o.Reason == string(warn.NodeDead) && strings.Contains(o.Message, "sidecar node remove b") == restarts {
				t.Errorf("restarts: %t: got %s", restarts, o.Message)
			}
		}
	}
}
