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
		text := f.TurnRemedy(Turn{Node: id, Kind: TurnOfCommand, Work: TurnWorkFailed})
		if !strings.Contains(text, "sidecar turn end "+string(id)) || strings.HasSuffix(text, "--force") != forced {
			t.Errorf("%s: got %q, want --force: %t", id, text, forced)
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
