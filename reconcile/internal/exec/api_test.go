package exec

import (
	"testing"
	"time"
)

// Requests are given up concurrently: the newest counts, not the last one noted.
func TestLastUnknown(t *testing.T) {
	var u LastUnknown
	if got := u.Time(); !got.IsZero() {
		t.Errorf("got %s, want none", got)
	}
	first := time.Now()
	second := first.Add(time.Second)
	for _, at := range []time.Time{second, first} {
		u.note(at)
		if got := u.Time(); got != second {
			t.Errorf("got %s, want %s", got, second)
		}
	}
}
