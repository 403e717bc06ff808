package views

import (
	"testing"
	"time"
)

// TestParseAt: people type as much of a time as they mean.
func TestParseAt(t *testing.T) {
	now := time.Date(2026, 11, 24, 20, 0, 0, 0, time.FixedZone("", 3600))
	for typed, want := range map[string]string{
		"14:02":                        "2026-11-24T14:02:00Z 1m0s",
		"14:02Z":                       "2026-11-24T14:02:00Z 1m0s",
		"14:02:31":                     "2026-11-24T14:02:31Z 1s",
		"14:02:31Z":                    "2026-11-24T14:02:31Z 1s",
		"2026-11-23 14:02":             "2026-11-23T14:02:00Z 1m0s",
		"2026-11-23T14:02":             "2026-11-23T14:02:00Z 1m0s",
		"2026-11-23T14:02Z":            "2026-11-23T14:02:00Z 1m0s",
		"2026-11-23T14:02+01:00":       "2026-11-23T13:02:00Z 1m0s",
		"2026-11-23 14:02:31":          "2026-11-23T14:02:31Z 1s",
		"2026-11-23T14:02:31Z":         "2026-11-23T14:02:31Z 1s",
		"2026-11-23T14:02:31.5Z":       "2026-11-23T14:02:31Z 1s",
		"2026-11-23T14:02:31.25+01:00": "2026-11-23T13:02:31Z 1s",
	} {
		asked, err := parseAt(typed, now)
		if got := asked.From.Format(time.RFC3339) + " " + asked.To.Sub(asked.From).String(); err != nil || got != want {
			t.Errorf("%q: got %s, %v, want %s", typed, got, err, want)
		}
	}
	for _, typed := range []string{"", "noon", "14", "14:60", "2026-11-23"} {
		if _, err := parseAt(typed, now); err == nil {
			t.Errorf("%q was read", typed)
		}
	}
}

// Collecting and writing take less time than was promised.
func TestSupportTakes(t *testing.T) {
	if supportCollect+supportWrite >= 30*time.Second {
		t.Error("the command can take 30 s")
	}
}
