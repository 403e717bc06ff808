package nodeturns

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// The command of a turn that ended without a word is noticed: at once after a restart of its machine, and
// otherwise when there was no sign of it for long, since its work may restart etcd.
func TestJudgeCommand(t *testing.T) {
	command := protocol.Turn{Node: "a", Kind: protocol.TurnOfCommand, Work: protocol.TurnWorkUnderWay, BootID: "one"}
	of := func(kind protocol.TurnKind, work protocol.TurnWork) protocol.Turn {
		out := command
		out.Kind, out.Work = kind, work
		return out
	}
	for _, tc := range []struct {
		name  string
		facts CommandFacts
		want  protocol.TurnWork
	}{
		{"it runs", CommandFacts{command, true, 0, false, "one"}, protocol.TurnWorkUnderWay},
		{"there is no sign of it for a while", CommandFacts{command, false, Silence - 1, false, "one"}, protocol.TurnWorkUnderWay},
		{"its stream has ended, and its key is there", CommandFacts{command, true, 0, true, "one"}, protocol.TurnWorkUnderWay},
		{"its stream and its key have ended", CommandFacts{command, false, 0, true, "one"}, protocol.TurnWorkInterrupted},
		{"there is no sign of it for long", CommandFacts{command, false, Silence, false, "one"}, protocol.TurnWorkInterrupted},
		{"the machine has restarted", CommandFacts{command, false, 0, false, "two"}, protocol.TurnWorkInterrupted},
		{"the machine has restarted, and it was typed again", CommandFacts{command, true, 0, false, "two"}, protocol.TurnWorkUnderWay},
		{"the boot ID is not known", CommandFacts{command, false, 0, false, ""}, protocol.TurnWorkUnderWay},
		{"it shows itself again", CommandFacts{of(protocol.TurnOfCommand, protocol.TurnWorkInterrupted), true, 0, false, "one"}, protocol.TurnWorkUnderWay},
		{"there is no sign of it still", CommandFacts{of(protocol.TurnOfCommand, protocol.TurnWorkInterrupted), false, Silence, false, "one"}, protocol.TurnWorkInterrupted},
		{"it has failed", CommandFacts{of(protocol.TurnOfCommand, protocol.TurnWorkFailed), false, Silence, false, "one"}, protocol.TurnWorkFailed},
		{"it has failed, and is typed again", CommandFacts{of(protocol.TurnOfCommand, protocol.TurnWorkFailed), true, 0, false, "one"}, protocol.TurnWorkFailed},
		{"it is done, and its stream has ended", CommandFacts{of(protocol.TurnOfCommand, protocol.TurnWorkDone), false, 0, true, "one"}, protocol.TurnWorkDone},
		{"a reboot, and its stream has ended", CommandFacts{of(protocol.TurnOfReboot, protocol.TurnWorkUnderWay), false, 0, true, "one"}, protocol.TurnWorkUnderWay},
		{"it is done", CommandFacts{of(protocol.TurnOfCommand, protocol.TurnWorkDone), false, Silence, false, "one"}, protocol.TurnWorkDone},
		{"a reboot", CommandFacts{of(protocol.TurnOfReboot, protocol.TurnWorkUnderWay), false, Silence, false, "two"}, protocol.TurnWorkUnderWay},
		{"a reboot that does not happen", CommandFacts{of(protocol.TurnOfReboot, protocol.TurnWorkUnderWay), false, Silence, false, "one"}, protocol.TurnWorkInterrupted},
		{"people", CommandFacts{of(protocol.TurnOfPeople, protocol.TurnWorkUnderWay), false, Silence, false, "two"}, protocol.TurnWorkUnderWay},
		{"services", CommandFacts{of(protocol.TurnOfServices, protocol.TurnWorkUnderWay), false, Silence, false, "two"}, protocol.TurnWorkUnderWay},
	} {
		if got := JudgeCommand(tc.facts); got != tc.want {
			t.Errorf("%s: got %s (%d), want %d", tc.name, got, got, tc.want)
		}
	}
}

// A node's sidecar ends what is done, except the turn of its services, which the rules of services end.
func TestFinishes(t *testing.T) {
	for _, tc := range []struct {
		kind   protocol.TurnKind
		work   protocol.TurnWork
		bootID string
		want   bool
	}{
		{protocol.TurnOfCommand, protocol.TurnWorkUnderWay, "two", false},
		{protocol.TurnOfCommand, protocol.TurnWorkFailed, "two", false},
		{protocol.TurnOfCommand, protocol.TurnWorkInterrupted, "two", false},
		{protocol.TurnOfCommand, protocol.TurnWorkDone, "one", true},
		{protocol.TurnOfReboot, protocol.TurnWorkUnderWay, "one", false},
		{protocol.TurnOfReboot, protocol.TurnWorkUnderWay, "two", true},
		{protocol.TurnOfReboot, protocol.TurnWorkDone, "one", true},
		{protocol.TurnOfPeople, protocol.TurnWorkUnderWay, "two", false},
		{protocol.TurnOfPeople, protocol.TurnWorkDone, "one", true},
		{protocol.TurnOfAgent, protocol.TurnWorkUnderWay, "two", false},
		{protocol.TurnOfAgent, protocol.TurnWorkDone, "two", true},
		{protocol.TurnOfServices, protocol.TurnWorkDone, "two", false},
	} {
		turn := protocol.Turn{Node: "a", Kind: tc.kind, Work: tc.work, BootID: "one"}
		if got := Finishes(turn, tc.bootID); got != tc.want {
			t.Errorf("%+v: got %t", tc, got)
		}
	}
}

func TestInterrupted(t *testing.T) {
	turn := protocol.Turn{Node: "a", Kind: protocol.TurnOfCommand, BootID: "one"}
	facts := CommandFacts{Turn: turn, BootID: "one", Silent: time.Minute}
	left, rebooted := facts, facts
	left.Left, rebooted.BootID = true, "two"
	for _, tc := range []struct {
		facts CommandFacts
		last  LastSign
		want  string
	}{
		// Its key is missing for a minute, and was there for at most six seconds after the kill.
		{facts, LastSign{Seen: true}, "it gave its last sign within 6s after 1970-01-01T00:16:34Z"},
		{facts, LastSign{}, "there was no sign of it at 1970-01-01T00:16:40Z"},
		{left, LastSign{Seen: true, Left: time.Unix(996, 0)}, "was killed at 1970-01-01T00:16:36Z; what it had started may still"},
		{rebooted, LastSign{Seen: true}, "the machine stopped"},
	} {
		if got := Interrupted(tc.facts, tc.last, time.Unix(1060, 0)); !strings.Contains(got, tc.want) {
			t.Errorf("%+v: got %q, want %q", tc.facts, got, tc.want)
		}
	}
}
