package history

import (
	"strings"
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
	want := map[string]string{
		"fleet": "··══··", "status": "      ", "a": "██░███", "b": "░░L███", "c": "█████░", "d": "█T████",
	}
	wantLanes(t, Picture{Entries: entries, Releases: map[protocol.NodeID]string{"d": ""}, From: t0, To: at(60), Width: 6}, want)
	wantLanes(t, Picture{Entries: entries, Node: "a", From: t0, To: at(60), Width: 6}, map[string]string{"fleet": "··══··", "status": "      ", "a": "██░███"})
}

func wantLanes(t *testing.T, p Picture, want map[string]string) {
	t.Helper()
	lanes := p.Lanes()
	if len(lanes) != len(want) {
		t.Errorf("got %d lanes", len(lanes))
	}
	for _, l := range lanes {
		if string(l.Cells) != want[l.Name] {
			t.Errorf("%q: got\n%s, want\n%s", l.Name, string(l.Cells), want[l.Name])
		}
	}
}

// TestLanes_named: an upgrade, which waits for its objects, and a rollback have their durations, the status its version and
// minimum, and nodes the releases that they ran.
func TestLanes_named(t *testing.T) {
	at := func(minute int) time.Time { return t0.Add(time.Duration(minute) * time.Minute) }
	statusAt := func(minute int, message string) Entry {
		return Entry{Kind: Status, Node: "a", Time: at(minute), Until: at(minute), Message: message}
	}
	release := func(minute int, id protocol.NodeID, message string) Entry {
		return Entry{Kind: Node, Node: id, Time: at(minute), Until: at(minute), Message: "registered with release " + message}
	}
	entries := []Entry{
		release(-90, "a", "1.0.0"),
		release(10, "a", "1.1.0 (before: 1.0.0)"),
		{Kind: Gate, Node: "a", Time: at(9), Until: at(11)},
		{Kind: Gate, Node: "b", Time: at(11), Until: at(13)},
		release(12, "b", "1.1.0 (before: 1.0.0)"),
		{Kind: Upgrade, Time: at(10), Until: at(20), Spans: []Span{{at(10), at(14)}}},
		statusAt(13, "WORKING 1.1.0, minimum 1.0.0 (before: DONE 1.0.0, minimum 1.0.0)"),
		statusAt(20, "DONE 1.1.0, minimum 1.1.0 (before: WORKING 1.1.0, minimum 1.0.0)"),
		statusAt(22, "DONE 1.1.0, minimum 1.1.0, with other objects"),
		{Kind: Rollback, Time: at(55)},
		release(58, "b", "1.0.0 (before: 1.1.0)"),
	}
	p := Picture{
		Entries: entries, Releases: map[protocol.NodeID]string{"a": "1.1.0", "b": "1.0.0", "c": "1.0.0"}, Status: "DONE 1.1.0, minimum 1.1.0",
		From: t0, To: at(60), Width: 60,
	}
	wantLanes(t, p, map[string]string{
		"fleet":  "··········═════────── upgrade 4m, objects 6m ··········═════",
		"status": "DONE 1.0.0···W~~~~~~DONE 1.1.0, minimum 1.1.0···············",
		"a":      "1.0.0████░░░1.1.0███████████████████████████████████████████",
		"b":      "1.0.0██████░░░1.1.0█████████████████████████████████████████",
		"c":      "████████████████████████████████████████████████████████████",
	})
	for _, l := range p.Lanes() {
		if l.Release != p.Releases[protocol.NodeID(l.Name)] {
			t.Errorf("%s: got the release %q", l.Name, l.Release)
		}
	}
	wantLanes(t, Picture{Entries: entries[9:10], Node: "c", From: at(54), To: at(60), Width: 30}, map[string]string{
		"fleet": "·····══ rollback 5m so far ═══", "status": strings.Repeat(" ", 30), "c": strings.Repeat("█", 30),
	})
	p.From, p.Width = at(-1380), 24 // a day
	wantLanes(t, p, map[string]string{
		"fleet":  "··· rollback 5m so far ═",
		"status": "DONE 1.0.0·············W",
		"a":      "███████████████████████░",
		"b":      "1.0.0██████████████████░",
		"c":      "████████████████████████",
	})
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
		if got := string(Picture{Entries: []Entry{test.entry}, From: t0, To: at(60), Width: 6}.Lanes()[2].Cells); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
