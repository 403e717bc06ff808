package history

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// TestNameSilent: a node whose sidecar announced no stop went silent. What it announced before an earlier stop, or another node
// announced, does not count.
func TestNameSilent(t *testing.T) {
	at := func(second int) time.Time { return t0.Add(time.Duration(second) * time.Second) }
	const stopped = "its sidecar does not run, or does not reach etcd"
	missing := Entry{Kind: Node, Node: "b", Time: at(10), Reason: protocol.NoPresence, Message: stopped, Count: 1}
	twice := missing
	twice.Count, twice.Spans = 2, []Span{{at(10), at(20)}, {From: at(40)}}
	stops := func(from, until int) Entry {
		e := Entry{Kind: Gate, Node: "b", Time: at(from), Reason: protocol.ShuttingDown, Message: "the sidecar is shutting down", Count: 1}
		if until != 0 {
			e.Until = at(until)
		}
		return e
	}
	as := func(e Entry, change func(*Entry)) Entry { change(&e); return e }
	for name, test := range map[string]struct {
		missing Entry
		other   Entry
		want    string
	}{
		"nothing else":         {missing, Entry{}, wentSilent},
		"it stopped":           {missing, stops(9, 0), stopped},
		"it stopped, and runs": {missing, stops(9, 14), stopped},
		"its clock is ahead":   {missing, stops(13, 0), stopped},
		"an earlier stop":      {missing, stops(3, 7), wentSilent},
		"a later stop":         {missing, stops(30, 0), wentSilent},
		"of another node":      {missing, as(stops(9, 0), func(e *Entry) { e.Node = "c" }), wentSilent},
		"another closing":      {missing, as(stops(9, 0), func(e *Entry) { e.Reason = protocol.Cordoned }), wentSilent},
		"a closed gate": {missing, as(stops(9, 0), func(e *Entry) {
			e.Reason, e.Message = protocol.Cordoned, "x"
			e.Parts = []Part{{At: []int64{1}}, {"ShuttingDown: y", []int64{2}}}
		}), stopped},
		"a duplicate":     {missing, as(stops(9, 0), func(e *Entry) { e.Reason = protocol.DuplicateNodeID }), stopped},
		"twice, one stop": {twice, stops(9, 15), stopped},
		"twice, no stop":  {twice, stops(21, 25), wentSilent},
	} {
		all := []Entry{test.other, test.missing}
		NameSilent(all)
		if all[0].Message != test.other.Message || all[1].Message != test.want {
			t.Errorf("%s: got %q, want %q", name, all[1].Message, test.want)
		}
	}
}

// TestNameSilent_starting: a sidecar that stops before its gate opened announces that, too.
func TestNameSilent_starting(t *testing.T) {
	l := NewLedger("b", t0)
	starting := protocol.Verdict{Reason: protocol.Starting, Message: "not reached"}
	l.Verdict(t0, protocol.Verdict{}, starting)
	l.Verdict(t0.Add(time.Second), starting, protocol.Verdict{Reason: protocol.ShuttingDown, Message: "the sidecar is shutting down"})
	all := append([]Entry{l.Due(1)[0].Entry}, Entry{Kind: Node, Node: "b", Time: t0.Add(2 * time.Second), Reason: protocol.NoPresence, Message: "missing", Count: 1})
	NameSilent(all)
	if len(all) != 2 || all[1].Message != "missing" || !all[0].says(string(protocol.ShuttingDown)) {
		t.Errorf("got %+v", all)
	}
}
