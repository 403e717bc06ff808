package etcd_test

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// requestTimeout leaves a busy machine time to answer. Tests of an unreachable etcd
// wait for it.
const requestTimeout = 5 * time.Second

func newClient(t *testing.T, endpoint string) *etcd.Client {
	t.Helper()
	c, err := etcd.NewClient(etcd.Config{Endpoints: []string{endpoint}, Prefix: "/p", RequestTimeout: requestTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func leases(t *testing.T, raw *clientv3.Client) int {
	t.Helper()
	resp, err := raw.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(resp.Leases)
}

func await[T any](t *testing.T, v *event.Value[T], ok func(T) bool) T {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		val, changed := v.Load()
		if ok(val) {
			return val
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("not seen in time; last: %+v", val)
		}
	}
}

// until polls cond, and fails the test if it does not become true.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// ends fails the test if f hangs. Its limit is far above every limit that f has to
// keep, so a slow machine does not fail the test.
func ends[T any](t *testing.T, what string, f func() T) T {
	t.Helper()
	out := make(chan T, 1)
	go func() { out <- f() }()
	select {
	case v := <-out:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("hangs: %s", what)
		panic("not reached")
	}
}
