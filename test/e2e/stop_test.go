package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	leadersPrefix = "/lockstep/kubernetes/reconciler/leader/"

	// longLease is the lease of leaders that resign. Without a resignation, no other node
	// leads before its end.
	longLease = 2 * time.Minute
	// takeover is how long the next leader may take after a resignation: much longer than
	// on a loaded machine, and much shorter than longLease.
	takeover = 30 * time.Second
	// exitGrace is how long an exit may take, in addition to --shutdown-delay, on a loaded
	// machine.
	exitGrace = 30 * time.Second
)

// TestStop ends a leader in every way while another node waits.
func TestStop(t *testing.T) {
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "shared"})
	if err != nil {
		t.Fatal(err)
	}
	client := c.Etcd.Client(t)

	t.Run("SIGTERM: not ready, then resigned, then ended", func(t *testing.T) {
		const delay = 10 * time.Second // enough for all that is observed in it
		first, second := startPair(t, api, cluster.SidecarConfig{ShutdownDelay: new(delay), LeaseTTL: longLease})
		wantLease(t, client, first.NodeID, longLease)
		resigned := watchResignation(t, client, first.NodeID)

		begin := time.Now()
		mustSignal(t, first, syscall.SIGTERM)
		select {
		case <-resigned:
		case <-time.After(takeover):
			t.Fatalf("leadership was not given up after %s", takeover)
		}
		code, body, err := first.Get(t.Context(), "/readyz")
		if err != nil || code != http.StatusServiceUnavailable || !strings.Contains(body, "ShuttingDown") {
			t.Errorf("/readyz after the resignation: got %d %q (%v), want 503 with ShuttingDown", code, body, err)
		}
		cluster.Await(t, "the other to lead", leads(second))
		wantWithin(t, "the other leads", begin, takeover)
		if code, _, err := first.Get(t.Context(), "/livez"); code != http.StatusOK {
			t.Errorf("/livez during the delay: got %d (%v), want 200", code, err)
		}
		wantExit(t, first, begin, delay)
		if err := second.Readyz(t.Context()); err != nil {
			t.Errorf("the other: %v", err)
		}
	})
	t.Run("SIGTERM without a delay", func(t *testing.T) {
		first, second := startPair(t, api, cluster.SidecarConfig{ShutdownDelay: new(time.Duration(0)), LeaseTTL: longLease})
		wantLease(t, client, first.NodeID, longLease)
		begin := time.Now()
		mustSignal(t, first, syscall.SIGTERM)
		cluster.Await(t, "the other to lead", leads(second))
		wantWithin(t, "the other leads", begin, takeover)
		wantExit(t, first, begin, 0)
	})
	t.Run("SIGKILL: the other leads when the lease has ended", func(t *testing.T) {
		const ttl = 3 * time.Second
		first, second := startPair(t, api, cluster.SidecarConfig{LeaseTTL: ttl})
		wantLease(t, client, first.NodeID, ttl)
		begin := time.Now()
		mustSignal(t, first, syscall.SIGKILL)
		cluster.Await(t, "the other to lead", leads(second))
		wantWithin(t, "the other leads", begin, ttl+takeover)
		if err := second.Readyz(t.Context()); err != nil {
			t.Errorf("the other: %v", err)
		}
	})
}

// startPair starts two sidecars, the first of which leads. They stop when the
// test ends.
func startPair(t *testing.T, api *cluster.APIServer, cfg cluster.SidecarConfig) (first, second *cluster.Sidecar) {
	t.Helper()
	cfg.Kubeconfig = api.Kubeconfig()
	start := func(id string) *cluster.Sidecar {
		cfg.NodeID = id
		s := startSidecar(t, api.Cluster, cfg)
		cluster.Await(t, id+" to be ready", s.Readyz)
		return s
	}
	first = start("first")
	cluster.Await(t, "the first to lead", leads(first))
	return first, start("second")
}

func leads(s *cluster.Sidecar) func(context.Context) error {
	return func(ctx context.Context) error {
		status, err := s.Status(ctx)
		if err != nil {
			return err
		}
		if status.Election.State != "leading" {
			return fmt.Errorf("%s is %s", s.NodeID, status.Election.State)
		}
		return nil
	}
}

// leaderKey returns the node's key in the election, and the revision at which it was read.
func leaderKey(t *testing.T, client *clientv3.Client, node string) (*mvccpb.KeyValue, int64) {
	t.Helper()
	keys, err := client.Get(t.Context(), leadersPrefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range keys.Kvs {
		if string(kv.Value) == node {
			return kv, keys.Header.Revision
		}
	}
	t.Fatalf("%s has no key in the election: %v", node, keys.Kvs)
	return nil, 0
}

// wantLease checks the lifetime of the lease with which the node leads.
func wantLease(t *testing.T, client *clientv3.Client, node string, want time.Duration) {
	t.Helper()
	key, _ := leaderKey(t, client, node)
	lease, err := client.TimeToLive(t.Context(), clientv3.LeaseID(key.Lease))
	if err != nil {
		t.Fatal(err)
	}
	if got := time.Duration(lease.GrantedTTL) * time.Second; got != want {
		t.Errorf("%s leads with a lease of %s, want %s", node, got, want)
	}
}

// watchResignation returns a channel that is closed when the node's key in the
// election is deleted.
func watchResignation(t *testing.T, client *clientv3.Client, node string) <-chan struct{} {
	t.Helper()
	key, revision := leaderKey(t, client, node)
	events := client.Watch(t.Context(), string(key.Key), clientv3.WithRev(revision+1), clientv3.WithFilterPut())
	resigned := make(chan struct{})
	go func() { // ends with the test's context at the latest
		<-events
		close(resigned)
	}()
	return resigned
}

func mustSignal(t *testing.T, s *cluster.Sidecar, sig syscall.Signal) {
	t.Helper()
	if err := s.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func wantWithin(t *testing.T, what string, begin time.Time, limit time.Duration) {
	t.Helper()
	took := time.Since(begin)
	t.Logf("%s after %s", what, took.Round(time.Millisecond))
	if took > limit {
		t.Errorf("%s after %s, want at most %s", what, took, limit)
	}
}

// wantExit wants exit code 0, after the delay and soon after it.
func wantExit(t *testing.T, s *cluster.Sidecar, begin time.Time, delay time.Duration) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(delay + exitGrace):
		t.Fatalf("the process still runs")
	}
	if code := s.ExitCode(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	if took := time.Since(begin); took < delay {
		t.Errorf("the process ended after %s, want it to answer for %s", took, delay)
	}
	wantWithin(t, "the process ended", begin, delay+exitGrace)
}
