package protocol

import (
	"strings"
	"testing"
	"time"
)

// A turn of services that never become ready says why on every node, and what to type.
func TestTurnWarnings_services(t *testing.T) {
	since := time.Unix(1000, 0)
	turn := Turn{Node: "a", Since: since, Until: since.Add(TurnTime), Kind: TurnOfServices, Message: "start again what has changed: api", Work: TurnWorkFailed}
	broken := controller("a", "1.0.0").cordoned()
	broken.Presence.Warnings = []Warning{
		{Reason: OptionalServiceFailing, Message: "an add-on"}, {Reason: ServiceNotReady, Message: `its service "api" runs and does not become ready`},
	}
	f := turnFleet(broken, controller("b", "1.0.0").ready())
	f.Turns.Held = []Turn{turn}
	got := TurnWarnings(f, since)
	if len(got) != 1 || got[0].Reason != TurnFailed || got[0].Subject != "a" {
		t.Fatalf("got %+v, want that the turn of a has failed", got)
	}
	for _, part := range []string{turn.Message, `its service "api" runs and does not become ready`, "no other node gets a turn", "repair the file", "sidecar turn end a"} {
		if !strings.Contains(got[0].Message, part) {
			t.Errorf("got %q, want %q in it", got[0].Message, part)
		}
	}
	if o := turnObstacles(f); len(o) != 1 || !strings.Contains(o[0].Message, "does not become ready") {
		t.Errorf("got %+v, want why the work of the turn has failed", o)
	}
	f.Turns.Held[0].Work = TurnWorkUnderWay
	if got := TurnWarnings(f, since); len(got) != 0 || f.TurnProblem(f.Turns.Held[0]) != "" {
		t.Errorf("got %+v, want nothing of work under way", got)
	}
	if got := TurnWarnings(f, since.Add(TurnTime)); len(got) != 1 || got[0].Reason != TurnOverdue {
		t.Errorf("got %+v, want that it is over its limit", got)
	}
}
