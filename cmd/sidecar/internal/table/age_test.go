package table

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/report"
)

// atNoon is the time in tests of ages.
var atNoon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 47*time.Hour + 59*time.Minute: "47h59m", 50 * time.Hour: "2d2h",
	} {
		if got := (Status{Now: atNoon}).age(report.At(atNoon.Add(-d))); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

// A clock that is wrong must not look like a status that was just written.
func TestAgo_clocksDiffer(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Minute: "0s ago", time.Minute: "60s ago",
		-3 * time.Hour: "3h0m from now (check the clocks of the node and of this machine)",
	} {
		if got := (Status{Now: atNoon}).ago(report.At(atNoon.Add(-d))); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}
