package status

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestDecodeOverride(t *testing.T) {
	want := protocol.Override{Until: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC), Message: "why so"}
	for _, text := range []string{EncodeOverride(want), "2026-01-02T15:04:05Z\nwhy  so\n\n", " 2026-01-02T16:04:05+01:00 \r\n\nwhy\nso"} {
		if got, err := decodeOverride(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":       "its first line must be the time",
		"30m":    `is "30m"`,
		"\x00\n": "its first line",
		"2026-01-02T15:04:05Z\n" + strings.Repeat("x", MaxOverrideMessage+1): "at most 256",
	} {
		if got, err := decodeOverride(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v, want %q", text, got, err, want)
		}
	}
}
