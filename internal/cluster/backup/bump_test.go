package backup

import (
	"testing"
	"time"
)

// No restoration begins at a revision that an earlier one of the same snapshot, or a write after it,
// could use. The clock may be wrong.
func TestBump(t *testing.T) {
	at := func(day int) time.Time { return time.Date(2026, time.November, day, 0, 0, 0, 0, time.UTC) }
	first := int64(bump(100, at(1))) + 100
	for name, c := range map[string]struct {
		snapshot int64
		now      time.Time
		above    int64
	}{
		"the same snapshot, 10 s later, after 10,000 writes a second": {100, at(1).Add(10 * time.Second), first + 99_999},
		"a snapshot of the restored store":                            {first + 1000, at(1).Add(time.Minute), first + 1000},
		"the clock went back":                                         {first, at(1).AddDate(-1, 0, 0), first + minBump - 1},
		"the clock is before 2020":                                    {first, time.Unix(0, 0), first + minBump - 1},
		"after ten years of 1,000 writes a second":                    {1000 * 3600 * 24 * 3650, at(1), 1000*3600*24*3650 + minBump - 1},
	} {
		if got := c.snapshot + int64(bump(c.snapshot, c.now)); got <= c.above {
			t.Errorf("%s: got the revision %d, want more than %d", name, got, c.above)
		}
	}
}
