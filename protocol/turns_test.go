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
	got := turnWarnings(f, since)
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
	if got := turnWarnings(f, since); len(got) != 0 || f.TurnProblem(f.Turns.Held[0]) != "" {
		t.Errorf("got %+v, want nothing of work under way", got)
	}
	if got := turnWarnings(f, since.Add(TurnTime)); len(got) != 1 || got[0].Reason != TurnOverdue {
		t.Errorf("got %+v, want that it is over its limit", got)
	}
}

// The command of a turn that ended without a word is noticed: at once after a restart of its machine, and
// otherwise when there was no sign of it for long, since its work may restart etcd.
func TestJudgeCommand(t *testing.T) {
	command := Turn{Node: "a", Kind: TurnOfCommand, Work: TurnWorkUnderWay, BootID: "one"}
	of := func(kind TurnKind, work TurnWork) Turn {
		out := command
		out.Kind, out.Work = kind, work
		return out
	}
	for _, tc := range []struct {
		name  string
		facts CommandFacts
		want  TurnWork
	}{
		{"it runs", CommandFacts{command, true, 0, "one"}, TurnWorkUnderWay},
		{"there is no sign of it for a while", CommandFacts{command, false, TurnSilence - 1, "one"}, TurnWorkUnderWay},
		{"there is no sign of it for long", CommandFacts{command, false, TurnSilence, "one"}, TurnWorkInterrupted},
		{"the machine has restarted", CommandFacts{command, false, 0, "two"}, TurnWorkInterrupted},
		{"the machine has restarted, and it was typed again", CommandFacts{command, true, 0, "two"}, TurnWorkUnderWay},
		{"the boot ID is not known", CommandFacts{command, false, 0, ""}, TurnWorkUnderWay},
		{"it shows itself again", CommandFacts{of(TurnOfCommand, TurnWorkInterrupted), true, 0, "one"}, TurnWorkUnderWay},
		{"there is no sign of it still", CommandFacts{of(TurnOfCommand, TurnWorkInterrupted), false, TurnSilence, "one"}, TurnWorkInterrupted},
		{"it has failed", CommandFacts{of(TurnOfCommand, TurnWorkFailed), false, TurnSilence, "one"}, TurnWorkFailed},
		{"it has failed, and is typed again", CommandFacts{of(TurnOfCommand, TurnWorkFailed), true, 0, "one"}, TurnWorkFailed},
		{"it is done", CommandFacts{of(TurnOfCommand, TurnWorkDone), false, TurnSilence, "one"}, TurnWorkDone},
		{"a reboot", CommandFacts{of(TurnOfReboot, TurnWorkUnderWay), false, TurnSilence, "two"}, TurnWorkUnderWay},
		{"a reboot that does not happen", CommandFacts{of(TurnOfReboot, TurnWorkUnderWay), false, TurnSilence, "one"}, TurnWorkInterrupted},
		{"people", CommandFacts{of(TurnOfPeople, TurnWorkUnderWay), false, TurnSilence, "two"}, TurnWorkUnderWay},
		{"services", CommandFacts{of(TurnOfServices, TurnWorkUnderWay), false, TurnSilence, "two"}, TurnWorkUnderWay},
	} {
		if got := JudgeCommand(tc.facts); got != tc.want {
			t.Errorf("%s: got %s (%d), want %d", tc.name, got, got, tc.want)
		}
	}
}

// Every node says that the command of a turn was killed, and what to type.
func TestTurnWarnings_interrupted(t *testing.T) {
	since := time.Unix(1000, 0)
	f := turnFleet(controller("a", "1.0.0").cordoned(), controller("b", "1.0.0").ready())
	turn := Turn{Node: "a", Since: since, Kind: TurnOfCommand, Command: "kubeadm upgrade node", Work: TurnWorkInterrupted, BootID: "one"}
	turn.Problem = turn.Interrupted("one", since)
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
	if why := turn.Interrupted("two", since); !strings.Contains(why, "the machine stopped") {
		t.Errorf("got %q", why)
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
		said := []string{f.TurnRemedy(turn), turnObstacles(f)[0].Message}
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
