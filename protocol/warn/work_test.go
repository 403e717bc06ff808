package warn

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// controller returns a valid record of a live controller.
func controller(id string) *protocol.Record {
	return &protocol.Record{ID: protocol.NodeID(id), Revision: 5, Alive: true, Node: protocol.Node{ID: protocol.NodeID(id), Roles: protocol.Roles{Controller: true}, Serves: true}}
}

// rollingBack is a fleet that goes back to 1.0.0, with two nodes of a newer release.
func rollingBack() protocol.Fleet {
	f := protocol.Fleet{Rollback: protocol.Rollback{To: protocol.Release{Major: 1}, Revision: 9}}
	for _, id := range []string{"m", "n", "o"} {
		f.Records = append(f.Records, controller(id))
	}
	f.Records[0].Node.Version.Release = f.Rollback.To
	for _, r := range f.Records[1:] {
		r.Node.Version.Release = protocol.Release{Major: 1, Minor: 1}
	}
	return f
}

// A turn of services that never become ready says why on every node, and what to type.
func TestTurnWarnings_services(t *testing.T) {
	since := time.Unix(1000, 0)
	turn := protocol.Turn{Node: "a", Since: since, Until: since.Add(protocol.TurnTime), Kind: protocol.TurnOfServices, Message: "start again what has changed: api", Work: protocol.TurnWorkFailed}
	broken := controller("a")
	broken.Presence.Warnings = []protocol.Warning{
		{Reason: OptionalServiceFailing, Message: "an add-on"}, {Reason: protocol.ServiceNotReady, Message: `its service "api" runs and does not become ready`},
	}
	f := protocol.Fleet{Records: []*protocol.Record{broken, controller("b")}}
	f.Turns.Held = []protocol.Turn{turn}
	got := turnWarnings(f, since)
	if len(got) != 1 || got[0].Reason != TurnFailed || got[0].Subject != "a" {
		t.Fatalf("got %+v, want that the turn of a has failed", got)
	}
	for _, part := range []string{turn.Message, `its service "api" runs and does not become ready`, "no other node gets a turn", "repair the file", "sidecar turn end a"} {
		if !strings.Contains(got[0].Message, part) {
			t.Errorf("got %q, want %q in it", got[0].Message, part)
		}
	}
	f.Turns.Held[0].Work = protocol.TurnWorkUnderWay
	if got := turnWarnings(f, since); len(got) != 0 || f.TurnProblem(f.Turns.Held[0]) != "" {
		t.Errorf("got %+v, want nothing of work under way", got)
	}
	if got := turnWarnings(f, since.Add(protocol.TurnTime)); len(got) != 1 || got[0].Reason != TurnOverdue {
		t.Errorf("got %+v, want that it is over its limit", got)
	}
}

// Every node says that the command of a turn was killed, and what to type.
func TestTurnWarnings_interrupted(t *testing.T) {
	since := time.Unix(1000, 0)
	f := protocol.Fleet{Records: []*protocol.Record{controller("a"), controller("b")}}
	turn := protocol.Turn{Node: "a", Since: since, Kind: protocol.TurnOfCommand, Command: "kubeadm upgrade node", Work: protocol.TurnWorkInterrupted, BootID: "one"}
	turn.Problem = "there is no sign of it since 1970-01-01T00:16:40Z"
	f.Turns.Held = []protocol.Turn{turn}
	got := turnWarnings(f, since)
	if len(got) != 1 || got[0].Reason != TurnFailed {
		t.Fatalf("got %+v, want that the turn of a has failed", got)
	}
	for _, part := range []string{"kubeadm upgrade node", "there is no sign of it since 1970-01-01T00:16:40Z", "start the same command again", "sidecar turn end a"} {
		if !strings.Contains(got[0].Message, part) {
			t.Errorf("got %q, want %q in it", got[0].Message, part)
		}
	}
}

// The turn of a node without a record ends by force only, and its warning says so.
func TestTurnWarnings_remedy(t *testing.T) {
	f := protocol.Fleet{Records: []*protocol.Record{controller("a")}}
	for id, forced := range map[protocol.NodeID]bool{"a": false, "gone": true} {
		turn := protocol.Turn{Node: id, Kind: protocol.TurnOfCommand, Work: protocol.TurnWorkFailed, Until: time.Unix(1000, 0)}
		f.Turns.Held = []protocol.Turn{turn}
		for _, now := range []time.Time{time.Unix(0, 0), turn.Until} {
			text := turnWarnings(f, now)[0].Message
			if !strings.Contains(text, "sidecar turn end "+string(id)) || strings.HasSuffix(text, "--force") != forced {
				t.Errorf("%s: got %q, want --force: %t", id, text, forced)
			}
		}
	}
}

func TestRollbackEnding(t *testing.T) {
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ lasts, before, ends time.Duration }{
		{24 * time.Hour, 22 * time.Hour, 23 * time.Hour},
		{time.Hour, 44 * time.Minute, 45 * time.Minute},
	} {
		f := rollingBack()
		f.Rollback.Since, f.Rollback.Until = begun, begun.Add(tt.lasts)
		if got := rollbackEnding(f, begun.Add(tt.before)); got != nil {
			t.Errorf("%s after it began for %s: got %v", tt.before, tt.lasts, got)
		}
		got := rollbackEnding(f, begun.Add(tt.ends))
		if len(got) != 1 || got[0].Reason != RollbackEnds || !strings.Contains(got[0].Message, "a node of a newer release (n, o) leads") {
			t.Errorf("%s after it began for %s: got %v", tt.ends, tt.lasts, got)
		}
	}
	if got := rollbackEnding(protocol.Fleet{}, begun); got != nil {
		t.Errorf("without a rollback: got %v", got)
	}
}
