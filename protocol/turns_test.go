package protocol

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func turnFleet(records ...*Record) Fleet {
	slices.SortFunc(records, func(a, b *Record) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return Fleet{Records: records}
}

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
	got := turnWarnings(f, since)
	if len(got) != 1 || got[0].Reason != TurnFailed || got[0].Subject != "a" {
		t.Fatalf("got %+v, want that the turn of a has failed", got)
	}
	for _, part := range []string{turn.Message, `its service "api" runs and does not become ready`, "no other node gets a turn", "repair the file", "sidecar turn end a"} {
		if !strings.Contains(got[0].Message, part) {
			t.Errorf("got %q, want %q in it", got[0].Message, part)
		}
	}
	f.Turns.Held[0].Work = TurnWorkUnderWay
	if got := turnWarnings(f, since); len(got) != 0 || f.TurnProblem(f.Turns.Held[0]) != "" {
		t.Errorf("got %+v, want nothing of work under way", got)
	}
	if got := turnWarnings(f, since.Add(TurnTime)); len(got) != 1 || got[0].Reason != TurnOverdue {
		t.Errorf("got %+v, want that it is over its limit", got)
	}
}

// Every node says that the command of a turn was killed, and what to type.
func TestTurnWarnings_interrupted(t *testing.T) {
	since := time.Unix(1000, 0)
	f := turnFleet(controller("a", "1.0.0").cordoned(), controller("b", "1.0.0").ready())
	turn := Turn{Node: "a", Since: since, Kind: TurnOfCommand, Command: "kubeadm upgrade node", Work: TurnWorkInterrupted, BootID: "one"}
	turn.Problem = "there is no sign of it since 1970-01-01T00:16:40Z"
	f.Turns.Held = []Turn{turn}
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

// The turn of an ephemeral node that is not alive keeps its record: only its removal ends both.
func TestFleet_TurnRemedy_ephemeral(t *testing.T) {
	f := turnFleet(controller("a", "1.0.0"))
	turn := Turn{Node: "a", Kind: TurnOfCommand}
	for _, alive := range []bool{true, false} {
		f.Records[0].Node.Ephemeral, f.Records[0].Alive = true, alive
		if got := f.TurnRemedy(turn); strings.Contains(got, "sidecar node remove a --confirm-stopped") == alive {
			t.Errorf("alive: %t: got %q", alive, got)
		}
	}
}

// The turn of a node without a record ends by force only.
func TestFleet_TurnRemedy(t *testing.T) {
	f := turnFleet(controller("a", "1.0.0"))
	for id, forced := range map[NodeID]bool{"a": false, "gone": true} {
		turn := Turn{Node: id, Kind: TurnOfCommand, Work: TurnWorkFailed, Until: time.Unix(1000, 0)}
		f.Turns.Held = []Turn{turn}
		said := []string{f.TurnRemedy(turn)}
		for _, now := range []time.Time{time.Unix(0, 0), turn.Until} {
			said = append(said, turnWarnings(f, now)[0].Message)
		}
		for _, text := range said {
			if !strings.Contains(text, "sidecar turn end "+string(id)) || strings.HasSuffix(text, "--force") != forced {
				t.Errorf("%s: got %q, want --force: %t", id, text, forced)
			}
		}
	}
}

func TestTurn_Overdue(t *testing.T) {
	now := time.Unix(1000, 0)
	for until, want := range map[time.Time]bool{{}: false, now.Add(time.Second): false, now: true, now.Add(-time.Second): true} {
		if got := (Turn{Until: until}).Overdue(now); got != want {
			t.Errorf("until %s: got %t", until, got)
		}
	}
}

// A turn whose work is done names the reason for which its node does not serve yet.
func TestTurnWait(t *testing.T) {
	turn := Turn{Node: "a", Since: time.Unix(1000, 0), Kind: TurnOfCommand, Command: "reboot", Message: "kernel", Work: TurnWorkDone}
	down := controller("a", "1.0.0").ready()
	down.Presence.APIServerDown = true
	for want, records := range map[string][]*Record{
		"":                               {controller("a", "1.0.0").ready()},
		"it has no record":               nil,
		"its record is corrupt":          {controller("a", "1.0.0").corrupt("x")},
		"it is dead":                     {controller("a", "1.0.0").ready().dead()},
		"it serves by an override alone": {controller("a", "1.0.0").overridden()},
		"its sidecar reports nothing":    {controller("a", "1.0.0").closed("")},
		string(APIServerNotReady):        {down},
		string(ReleaseTooOld):            {controller("a", "1.0.0").closed(ReleaseTooOld)},
	} {
		f := turnFleet(records...)
		wantText(t, f.TurnWait(turn), want)
		text := f.TurnText(turn)
		if !strings.Contains(text, "reboot (kernel); its work is done") || want != "" && !strings.Contains(text, `, and node "a" does not serve yet: `+want) {
			t.Errorf("got %q, want %q", text, want)
		}
	}
	turn.Work = TurnWorkUnderWay
	wantText(t, turnFleet().TurnWait(turn), "")
}
