package history

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestLanes(t *testing.T) {
	at := func(minute int) time.Time { return t0.Add(time.Duration(minute) * time.Minute) }
	entries := []Entry{
		{Kind: Leader, Node: "a", Time: at(-50), Until: at(-50)},
		{Kind: Gate, Node: "b", Time: at(-20), Until: at(12)},
		{Kind: Upgrade, Time: at(20), Until: at(39)},
		{Kind: Node, Node: "a", Reason: protocol.NoPresence, Time: at(25), Until: at(26)},
		{Kind: Node, Node: "a", Reason: Changed, Time: at(35), Until: at(35)},
		{Kind: Leader, Node: "b", Time: at(25), Until: at(25)},
		{Kind: APIServer, Node: "c", Time: at(55)},
		{Kind: Turn, Node: "d", Time: at(15), Until: at(45)},
		{Kind: Turn, Node: "d", Time: at(-15), Until: at(5)},
		{Kind: Gate, Node: "c", Time: at(70), Until: at(80)},
	}
	want := map[protocol.NodeID]string{
		"": "··══··", "a": "██░███", "b": "░░L███", "c": "█████░", "d": "█T████",
	}
	lanes := Lanes(entries, []protocol.NodeID{"d"}, t0, at(60), 6)
	if len(lanes) != len(want) {
		t.Errorf("got %d lanes", len(lanes))
	}
	for _, l := range lanes {
		if string(l.Cells) != want[l.Node] {
			t.Errorf("%q: got %s, want %s", l.Node, string(l.Cells), want[l.Node])
		}
	}
}

// TestLanes_joined: a lane is hollow only where the node was out of service, although one entry joins the outages; where only
// their begin and end are known, it is partly out.
func TestLanes_joined(t *testing.T) {
	at := func(minute int) time.Time { return t0.Add(time.Duration(minute) * time.Minute) }
	spans := []Span{{at(0), at(1)}, {at(25), at(26)}, {at(55), at(56)}}
	for name, test := range map[string]struct {
		entry Entry
		want  string
	}{
		"all known":        {Entry{Count: 3, Time: at(0), Until: at(56), Spans: spans}, "░█░██░"},
		"the newest known": {Entry{Count: 4, Time: at(0), Until: at(56), Spans: spans[1:]}, "░▒░██░"},
		"none known":       {Entry{Count: 3, Time: at(0), Until: at(56)}, "░▒▒▒▒░"},
		"it goes on":       {Entry{Count: 3, Time: at(10)}, "█░▒▒▒░"},
		"the last goes on": {Entry{Count: 3, Time: at(0), Spans: []Span{spans[0], spans[1], {From: at(45)}}}, "░█░█░░"},
	} {
		test.entry.Kind, test.entry.Node = Gate, "a"
		if got := string(Lanes([]Entry{test.entry}, nil, t0, at(60), 6)[1].Cells); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
