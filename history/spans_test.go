package history

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// restarts is the gate's history of a node whose sidecar was stopped several times, each time for so long, and served
// for a while between: each process ends what the one before it began.
func restarts(t *testing.T, served time.Duration, stopped ...time.Duration) Entry {
	t.Helper()
	s, at, stopping := &store{}, t0, protocol.Verdict{Reason: protocol.ShuttingDown, Message: "the sidecar stops"}
	for i, d := range append([]time.Duration{0}, stopped...) {
		l := NewLedger("a", at)
		at = at.Add(d)
		l.Verdict(at, protocol.Verdict{}, ready)
		l.Adopt(at, stored(t, s))
		s.write(l)
		at = at.Add(served)
		if i < len(stopped) {
			l.Verdict(at, ready, stopping)
			s.write(l)
		}
	}
	got := s.entries(Gate)
	if len(got) != 1 {
		t.Fatalf("got %+v, want one entry", got)
	}
	return got[0]
}

// stored is what the store keeps, after it was written as JSON.
func stored(t *testing.T, s *store) []Held {
	t.Helper()
	out := s.held()
	for i := range out {
		text, err := json.Marshal(out[i].Entry)
		if err != nil {
			t.Fatal(err)
		}
		id := out[i].ID
		out[i].Entry = Entry{ID: id}
		if err := json.Unmarshal(text, &out[i].Entry); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestLedger_joinedRestarts: two closings, of which each was ended by another process, last as long as both of them, not
// as long as the time from the first to the last.
func TestLedger_joinedRestarts(t *testing.T) {
	e := restarts(t, 38*time.Second, 6700*time.Millisecond, 7700*time.Millisecond)
	if want := "the sidecar stops (2 times, 14.4s in all)"; e.Count != 2 || e.Lasted != 14400*time.Millisecond || e.Sentence() != want {
		t.Errorf("got %d times, %s, %q, want 2 times, 14.4s, %q", e.Count, e.Lasted, e.Sentence(), want)
	}
}

// TestEntry_stretches: an entry knows the newest of its times, and that it was out at some time before them.
func TestEntry_stretches(t *testing.T) {
	e := restarts(t, 30*time.Second, 6*time.Second, 7*time.Second, 8*time.Second)
	at := func(second int) time.Time { return t0.Add(time.Duration(second) * time.Second) }
	if got, want := fmt.Sprint(e.stretches()), fmt.Sprint([]stretch{
		{Span{at(30), at(36)}, false}, {Span{at(66), at(73)}, false}, {Span{at(103), at(111)}, false},
	}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	many := make([]time.Duration, maxSpans+3)
	for i := range many {
		many[i] = time.Second
	}
	e = restarts(t, 30*time.Second, many...)
	got := e.stretches()
	if e.Count != len(many) || len(got) != maxSpans+1 || !got[0].partly || !got[0].Until.Equal(got[1].From) || !got[0].From.Equal(e.Time) {
		t.Errorf("got %d times, %v", e.Count, got)
	}
}

// TestAdopt_olderProgram: an entry that an older program wrote without the times of its closings is read, and ends
// without counting the time between them.
func TestAdopt_olderProgram(t *testing.T) {
	for _, seen := range []bool{true, false} {
		var old Held
		if err := json.Unmarshal(fmt.Appendf(nil, `{"time": %q, "kind": "gate", "node": "a", "reason": "Cordoned", "message": "m", "count": 2,
			"lasted": 6000000000}`, t0.Format(time.RFC3339)), &old.Entry); err != nil {
			t.Fatal(err)
		}
		old.ID, old.Revision = "gate/a/1", 5
		l := NewLedger("a", t0.Add(50*time.Second))
		if seen { // this program's gate closed too
			l.Verdict(t0.Add(50*time.Second), ready, closed)
		}
		l.Adopt(t0.Add(51*time.Second), []Held{old})
		l.Verdict(t0.Add(53*time.Second), closed, ready)
		s := &store{}
		s.write(l)
		want := map[bool]time.Duration{true: 9 * time.Second, false: 8 * time.Second}[seen]
		got := s.entries(Gate)
		if len(got) != 1 || got[0].Lasted != want || got[0].Count != 2 || got[0].Open() || !got[0].stretches()[0].partly {
			t.Errorf("seen %t: got %+v, want %s", seen, got, want)
		}
	}
	e := Entry{Time: t0, Until: t0.Add(time.Minute), Message: "m", Count: 3, Lasted: 5 * time.Minute}
	if got, want := e.Sentence(), "m (3 times, 1m0s in all)"; got != want {
		t.Errorf("got %q, want %q: not more than the time from the first to the last", got, want)
	}
}

func TestSpan_unreadable(t *testing.T) {
	for _, text := range []string{`[]`, `[1,"x"]`, `{}`, `["x"]`} {
		if err := json.Unmarshal([]byte(text), &Span{}); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}
