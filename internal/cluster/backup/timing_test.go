package backup

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol/warn"
)

func TestTiming(t *testing.T) {
	const every = 6 * time.Hour
	at := func(hours float64) time.Time {
		return time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC).Add(time.Duration(hours * float64(time.Hour)))
	}
	for name, tc := range map[string]struct {
		s    Timing
		due  time.Time
		warn string // at hour 12; empty: no warning
	}{
		"the flag is not set":                      {Timing{Begun: at(0)}, time.Time{}, ""},
		"no member that votes":                     {Timing{Every: every}, time.Time{}, ""},
		"the first one is saved at once":           {Timing{Every: every, Begun: at(11)}, time.Time{}, ""},
		"the next one follows the newest":          {Timing{Every: every, Begun: at(0), Newest: at(7)}, at(13), ""},
		"a restart does not begin again":           {Timing{Every: every, Begun: at(11), Newest: at(8)}, at(14), ""},
		"one is missed":                            {Timing{Every: every, Begun: at(-9), Newest: at(1)}, at(7), ""},
		"two are missed":                           {Timing{Every: every, Begun: at(-9), Newest: at(-0.5)}, at(11.0 / 2), "newest one is of 2026-11-25T23:30:00Z"},
		"the node was off for long":                {Timing{Every: every, Begun: at(11), Newest: at(-90)}, at(-84), ""},
		"on for long, with an old one":             {Timing{Every: every, Begun: at(-1), Newest: at(-90)}, at(-84), "2026-11-22T06:00:00Z"},
		"the first one failed":                     {Timing{Every: every, Begun: at(11), Problem: "no space", Tried: at(11), Retry: time.Hour}, at(12), "has none: no space"},
		"one failed, and the newest is recent":     {Timing{Every: every, Begun: at(0), Newest: at(5), Problem: "no space", Tried: at(11.5), Retry: time.Hour}, at(12.5), ""},
		"a failure does not make the next earlier": {Timing{Every: every, Begun: at(0), Newest: at(10), Problem: "x", Tried: at(9), Retry: time.Hour}, at(16), ""},
		"none for two intervals, without a reason": {Timing{Every: every, Begun: at(0)}, time.Time{}, "has none"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.s.Due(); !got.Equal(tc.due) {
				t.Errorf("due at %s, want %s", got, tc.due)
			}
			w, warns := tc.s.Warning(at(12))
			if warns != (tc.warn != "") || !strings.Contains(w.Message, tc.warn) || warns && w.Reason != warn.SnapshotOld {
				t.Errorf("got %v %+v, want %q", warns, w, tc.warn)
			}
			// A caller asks again at the time at which the answer changes.
			if at := tc.s.WarnsAt(); !at.IsZero() && (tc.s.Problem == "" || !tc.s.Newest.IsZero()) {
				_, before := tc.s.Warning(at.Add(-1))
				if _, then := tc.s.Warning(at); before || !then {
					t.Errorf("at %s: a warning before: %v, and then: %v", at, before, then)
				}
			}
		})
	}
}
