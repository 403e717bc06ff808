package fleet

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// Each case lists observations of a fleet, in the order of the steps, and whether the clock of b
// is found to differ afterwards.
func TestClocks(t *testing.T) {
	began := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	type step struct {
		after    time.Duration // by this machine's clock, since the start
		set      time.Duration // the clock was set by so much before
		revision int64         // of etcd, as in the newest answer
		presence int64         // its revision; 0: b is not alive
		written  time.Duration // by b's clock, since the start
	}
	for name, tc := range map[string]struct {
		steps []step
		want  string // empty: no warning
	}{
		"equal":                           {[]step{{0, 0, 10, 5, -time.Hour}, {10 * time.Second, 0, 11, 11, 10 * time.Second}}, ""},
		"its clock is an hour ahead":      {[]step{{0, 0, 10, 5, time.Hour}}, "b: its clock is about 1h0m ahead of that of a;"},
		"written an hour ago":             {[]step{{0, 0, 10, 5, -time.Hour}}, ""},
		"its clock is an hour behind":     {[]step{{0, 0, 10, 0, 0}, {10 * time.Second, 0, 11, 11, -time.Hour}}, "b: its clock is about 1h0m behind that of a;"},
		"etcd did not answer for an hour": {[]step{{0, 0, 10, 0, 0}, {time.Hour, 0, 11, 11, time.Minute}}, ""},
		"it was corrected":                {[]step{{0, 0, 10, 5, time.Hour}, {10 * time.Second, 0, 11, 11, 10 * time.Second}}, ""},
		"it has stopped":                  {[]step{{0, 0, 10, 5, time.Hour}, {10 * time.Second, 0, 11, 0, 0}}, ""},
		"its own clock was corrected":     {[]step{{0, 0, 10, 5, time.Hour}, {time.Hour, time.Hour - time.Minute, 11, 5, time.Hour}}, ""},
		"its own clock was set back":      {[]step{{0, 0, 10, 0, 0}, {-time.Hour, -time.Hour - time.Minute, 11, 11, -time.Hour}}, ""},
		"its own clock runs for a day":    {[]step{{0, 0, 10, 5, time.Hour}, {24 * time.Hour, 0, 11, 5, time.Hour}}, "b: its clock is about 1h0m ahead"},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewClocks(ClocksConfig{Own: "a"})
			running := time.Duration(0)
			var now ClockState
			var before time.Duration
			steps := 0
			for _, s := range tc.steps {
				running += s.after - before - s.set
				before = s.after
				if s.set != 0 {
					steps++
				}
				var f protocol.Fleet
				if s.presence != 0 {
					f.Records = []*protocol.Record{{ID: "b", Alive: true, Presence: protocol.Presence{Revision: s.presence, Written: began.Add(s.written)}}}
				}
				wall := began.Add(s.after)
				contact := etcd.Contact{Connected: true, Last: wall, Revision: s.revision}
				now = c.next(f, contact, CordonOver{}, moment{wall, running})
			}
			got := ""
			for _, w := range now.Warnings {
				got += w.Subject + ": " + w.Message
			}
			if (got != "") != (tc.want != "") || !strings.HasPrefix(got, tc.want) || (now.Largest != 0) != (tc.want != "") {
				t.Errorf("got %q, %s, want %q", got, now.Largest, tc.want)
			}
			if now.Steps != steps {
				t.Errorf("noticed %d times that the clock was set, want %d", now.Steps, steps)
			}
		})
	}
}

// What is known of a clock stays when another node stops.
func TestClocks_otherStops(t *testing.T) {
	began := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	of := func(id protocol.NodeID, alive bool) *protocol.Record {
		return &protocol.Record{ID: id, Alive: alive, Presence: protocol.Presence{Revision: 5, Written: began.Add(time.Hour)}}
	}
	c := NewClocks(ClocksConfig{Own: "a"})
	for i, alive := range []bool{true, false} {
		f := protocol.Fleet{Records: []*protocol.Record{of("b", true), of("c", alive), of("d", true)}}
		now := began.Add(time.Duration(i) * time.Second)
		c.next(f, etcd.Contact{Connected: true, Last: now, Revision: 10}, CordonOver{}, moment{now, now.Sub(began)})
		want := []protocol.NodeID{"b", "c", "d"}
		if !alive {
			want = []protocol.NodeID{"b", "d"}
		}
		if got := slices.Sorted(maps.Keys(c.offsets)); !slices.Equal(got, want) {
			t.Errorf("c is alive: %t: got differences of %v, want %v", alive, got, want)
		}
	}
}

// A worker that panicked is started again: that is no change of the clock, and what is known of other clocks stays.
func TestClocks_runsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := protocol.Presence{Revision: 5, Written: time.Now().Add(time.Hour)}
		c := NewClocks(ClocksConfig{
			Own: "a", Fleet: event.New(protocol.Fleet{Records: []*protocol.Record{{ID: "b", Alive: true, Presence: ahead}}}),
			Contact: event.New(etcd.Contact{}), CordonOver: event.New(CordonOver{}),
		})
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_ = c.Run(ctx) // its error is that ctx ended
			cancel()
			if now := c.State().Get(); now.Steps != 0 || len(now.Warnings) != 1 {
				t.Errorf("got %+v", now)
			}
		}
	})
}

// A cordon that was over when it was read is shown for ten minutes, with both clocks.
func TestClocks_cordonOver(t *testing.T) {
	since := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	over := CordonOver{Cordon: protocol.Cordon{Since: since, Until: since.Add(30 * time.Minute)}, Read: since.Add(time.Hour)}
	c := NewClocks(ClocksConfig{Own: "a"})
	state := func(later time.Duration) ClockState {
		return c.next(protocol.Fleet{}, etcd.Contact{}, over, moment{over.Read.Add(later), later})
	}
	got := state(0).Warnings
	if len(got) != 1 || got[0].Reason != warn.CordonOver {
		t.Fatalf("got %+v", got)
	}
	for _, text := range []string{"written at 2026-11-22T03:00:00Z", "until 2026-11-22T03:30:00Z", "at 2026-11-22T04:00:00Z by its own clock"} {
		if !strings.Contains(got[0].Message, text) {
			t.Errorf("%q does not have %q", got[0].Message, text)
		}
	}
	if got := state(overMemory).Warnings; got != nil {
		t.Errorf("ten minutes later: %+v", got)
	}
}
