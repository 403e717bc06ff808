package child

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// The answer to a request has time to leave after the request has ended.
func TestAwaitCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &etcdServer{}
		s.calls.Add(1)
		var ended time.Time
		go func() {
			backoff.Sleep(t.Context(), aware+3*callPause-time.Microsecond)
			ended = time.Now()
			s.calls.Add(-1)
		}()
		s.awaitCalls(t.Context())
		if passed := time.Since(ended); passed < callPause {
			t.Errorf("connections are closed %s after the last request ended", passed)
		}
	})
}
