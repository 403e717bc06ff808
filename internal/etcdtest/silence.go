package etcdtest

import (
	"testing"
	"time"
)

// AwaitSilence waits until the last answer of an etcd is older than d.
func AwaitSilence(t *testing.T, last func() time.Time, d time.Duration) {
	t.Helper()
	for time.Since(last()) <= d {
		select {
		case <-t.Context().Done():
			t.Fatal("the test is over")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
