package noderecord

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

func TestClockOffset(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	for name, tc := range map[string]struct {
		facts ClockFacts
		want  time.Duration // 0: no difference is certain
	}{
		"no time":                        {ClockFacts{NotBefore: at(-time.Second), Seen: now}, 0},
		"equal":                          {ClockFacts{at(-time.Second), at(-2 * time.Second), now}, 0},
		"a little ahead":                 {ClockFacts{at(4 * time.Second), at(-time.Second), now}, 0},
		"ahead":                          {ClockFacts{at(5 * time.Second), at(-time.Second), now}, 5 * time.Second},
		"ahead, and read from a listing": {ClockFacts{at(time.Hour), time.Time{}, now}, time.Hour},
		"old, and read from a listing":   {ClockFacts{at(-time.Hour), time.Time{}, now}, 0},
		"written while it was cut off":   {ClockFacts{at(-time.Hour), at(-2 * time.Hour), now}, 0},
		"behind":                         {ClockFacts{at(-time.Hour), at(-time.Second), now}, -time.Hour},
		"perhaps a slow write":           {ClockFacts{at(-15 * time.Second), at(-time.Second), now}, 0},
		"behind by more than that":       {ClockFacts{at(-16 * time.Second), at(-time.Second), now}, -16 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if got, certain := ClockOffset(tc.facts); got != tc.want || certain != (tc.want != 0) {
				t.Errorf("got %s, %t, want %s", got, certain, tc.want)
			}
		})
	}
}

func TestClockText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		5 * time.Second: "5s", 57 * time.Second: "55s", 58 * time.Second: "1m", 89 * time.Second: "1m", 59*time.Minute + 20*time.Second: "59m",
		59*time.Minute + 40*time.Second: "1h0m", 25*time.Hour + 90*time.Second: "25h2m",
	} {
		if got := clockText(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

func TestClockWarnings(t *testing.T) {
	reports := func(id, subject string) *protocol.Record {
		r := controller(id, "1.0.0")
		r.Presence.Warnings = []protocol.Warning{{Reason: warn.ClocksDiffer, Subject: subject}}
		return r
	}
	dead := func(r *protocol.Record) *protocol.Record { r.Alive = false; return r }
	for name, tc := range map[string]struct {
		own     protocol.NodeID
		offsets map[protocol.NodeID]time.Duration
		others  []*protocol.Record
		want    []string // "SUBJECT: a part of the message"
	}{
		"none":                        {"a", nil, nil, nil},
		"one is ahead":                {"a", map[protocol.NodeID]time.Duration{"b": time.Hour + 10*time.Millisecond}, nil, []string{"b: its clock is about 1h0m ahead of that of a;"}},
		"one is behind":               {"a", map[protocol.NodeID]time.Duration{"b": -62 * time.Second}, nil, []string{"b: its clock is about 1m behind that of a;"}},
		"two that differ":             {"a", map[protocol.NodeID]time.Duration{"b": -16 * time.Second, "c": 6 * time.Second}, nil, []string{"b: about 15s behind", "c: about 5s ahead"}},
		"all others differ":           {"b", map[protocol.NodeID]time.Duration{"a": -time.Hour, "c": -time.Hour}, nil, []string{": its clock is about 1h0m ahead of those of a and c;"}},
		"a lower node reports it":     {"c", map[protocol.NodeID]time.Duration{"b": time.Hour}, []*protocol.Record{reports("a", "b")}, nil},
		"a higher node reports it":    {"a", map[protocol.NodeID]time.Duration{"b": time.Hour}, []*protocol.Record{reports("c", "b")}, []string{"b: ahead"}},
		"it is not alive":             {"c", map[protocol.NodeID]time.Duration{"b": time.Hour}, []*protocol.Record{dead(reports("a", "b"))}, []string{"b: ahead"}},
		"the odd one reports it":      {"a", map[protocol.NodeID]time.Duration{"b": time.Hour}, []*protocol.Record{reports("b", "")}, nil},
		"each finds the other":        {"b", map[protocol.NodeID]time.Duration{"a": time.Hour}, []*protocol.Record{reports("a", "b")}, nil},
		"each finds the other, lower": {"a", map[protocol.NodeID]time.Duration{"b": time.Hour}, []*protocol.Record{reports("b", "a")}, []string{"b: ahead"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ClockWarnings(tc.own, tc.offsets, protocol.Fleet{Records: tc.others})
			if len(got) != len(tc.want) {
				t.Fatalf("got %+v, want %q", got, tc.want)
			}
			for i, w := range got {
				subject, part, _ := strings.Cut(tc.want[i], ": ")
				if w.Reason != warn.ClocksDiffer || w.Subject != subject || !strings.Contains(w.Message, part) {
					t.Errorf("got %+v, want %q", w, tc.want[i])
				}
			}
		})
	}
}
