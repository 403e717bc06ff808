package reconcile

import (
	"testing"
	"time"
)

// Requests are given up side by side: the newest counts, not who notes it last.
func TestDoubt(t *testing.T) {
	var d doubt
	if got := d.last(); !got.IsZero() {
		t.Errorf("got %s, want none", got)
	}
	first := time.Now()
	second := first.Add(time.Second)
	for _, at := range []time.Time{second, first} {
		d.note(at)
		if got := d.last(); got != second {
			t.Errorf("got %s, want %s", got, second)
		}
	}
}
