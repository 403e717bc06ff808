package show

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// Since when is counted by this sidecar's clock, from the moment when it saw the change: the
// clocks of other nodes differ.
func TestSightings(t *testing.T) {
	controller := protocol.Node{Roles: protocol.Roles{Controller: true}}
	alive := &protocol.Record{ID: "b", Node: controller, Alive: true, Presence: protocol.Presence{Ready: true, Reason: protocol.Ready}}
	of := func(r *protocol.Record) protocol.Fleet { return protocol.Fleet{Records: []*protocol.Record{r}} }
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	old := protocol.Warning{Reason: warn.MemberDown, Message: "old", Since: at(-3600)}
	alive.Presence.Warnings = []protocol.Warning{old}

	s := sightings{}.update(of(alive), at(0))
	if again := s.update(of(alive), at(5)); !again.equal(s) {
		t.Errorf("nothing changed: got %+v, before %+v", again, s)
	}
	if len(s.warningsSince()) != 0 {
		t.Errorf("a warning from before: got %v", s.warningsSince())
	}
	down := *alive
	down.Presence.APIServerDown = true
	down.Presence.Warnings = []protocol.Warning{old, {Reason: protocol.APIServerNotReady, Message: "new", Since: at(-3600).Add(1)}}
	s = s.update(of(&down), at(10))
	if got := s.shown(of(&down), at(10))["b"]; !got.Alive.Equal(at(0)) || !got.Serves.Equal(at(10)) {
		t.Errorf("its kube-apiserver is down: got %+v", got)
	}
	key := httpapi.NodeWarning{Node: "b", Reason: protocol.APIServerNotReady, Message: "new"}
	if got := s.warningsSince(); len(got) != 1 || !got[key].Equal(at(10)) {
		t.Errorf("got %v", got)
	}
	changed := down
	changed.Presence.Warnings = []protocol.Warning{old, {Reason: protocol.APIServerNotReady, Message: "newer", Since: at(-3600).Add(1)}}
	now := s.update(of(&down), at(12)).update(of(&changed), at(14)).warningsSince()
	if key.Message = "newer"; len(now) != 1 || !now[key].Equal(at(10)) {
		t.Errorf("its message changed: got %v", now)
	}
	other := down
	other.Presence.Ready, other.Presence.Reason = false, protocol.Cordoned
	if got := s.shown(of(&other), at(15))["b"]; !got.Alive.Equal(at(0)) || !got.Serves.Equal(at(15)) {
		t.Errorf("another reason, with the age of the former: got %+v", got)
	}
	gone := *alive
	gone.Alive = false
	s = s.update(of(&gone), at(20))
	if got := s.shown(of(&gone), at(20))["b"]; !got.Alive.Equal(at(20)) || len(s.warningsSince()) != 0 {
		t.Errorf("gone: got %+v, %v", got, s.warningsSince())
	}
	if got := s.aliveSince(gone, at(99)); !got.Equal(at(20)) {
		t.Errorf("got %s", got)
	}
	if got := s.shown(of(alive), at(99))["b"]; !got.Alive.Equal(at(99)) || !got.Serves.Equal(at(99)) {
		t.Errorf("a later observation, with the age of the former: got %+v", got)
	}
}
