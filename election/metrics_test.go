package election

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// The time since when a leader waits stays while the number of the nodes changes.
func TestMetrics_wait(t *testing.T) {
	m := newMetrics(nil)
	at := time.Unix(1e9, 0)
	for i, tt := range []struct {
		blockers int
		since    float64
	}{{0, 0}, {2, 1e9 + 1}, {1, 1e9 + 1}, {0, 0}, {0, 0}, {1, 1e9 + 5}} {
		m.wait(tt.blockers, at.Add(time.Duration(i)*time.Second))
		if n, since := testutil.ToFloat64(m.blockers), testutil.ToFloat64(m.blocked); n != float64(tt.blockers) || since != tt.since {
			t.Errorf("%d: got %v since %v, want %+v", i, n, since, tt)
		}
	}
}
