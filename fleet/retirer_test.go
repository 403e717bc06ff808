package fleet

import (
	"testing"
	"time"
)

// The count is from when the first refusal arrived to when the newest refused request was sent.
func TestRefusals(t *testing.T) {
	began := time.Now()
	var r refusals
	for _, request := range []struct {
		refused       bool
		sent, arrived time.Duration
		want          time.Duration
	}{
		{true, 0, time.Second, 0},
		{true, 2 * time.Second, 3 * time.Second, time.Second},
		{true, 4 * time.Second, 5 * time.Second, 3 * time.Second},
		{false, 6 * time.Second, 7 * time.Second, 0},
		{true, 8 * time.Second, 9 * time.Second, 0},
	} {
		r.learn(request.refused, began.Add(request.sent), began.Add(request.arrived))
		if got := r.lasted(); got != request.want {
			t.Errorf("sent at %s: got %s, want %s", request.sent, got, request.want)
		}
	}
}
