package balancers_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/balancers"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// shutdownDelay is longer than HAProxy needs to notice a closed gate, by far: a second.
const shutdownDelay = 5 * time.Second

// TestUpgrade rolls three nodes behind HAProxy to a release that raises both constraints,
// with clients of both kinds. No request fails, no acknowledged write is lost, and no
// kube-apiserver answers whose release does not fit the objects. Then one is killed: new
// connections leave it.
func TestUpgrade(t *testing.T) {
	_ = needsProgram(t, "haproxy")
	addresses, bind := loopback(t, 3)
	var ips []net.IP
	for _, address := range append(addresses, hostOf(t, bind)) {
		ips = append(ips, net.ParseIP(address))
	}
	dir := t.TempDir()
	c, err := cluster.New(cluster.Config{
		Assets: cluster.Assets(t, "kube-apiserver", "sidecar"), Dir: dir, LogDir: t.ArtifactDir(), Addresses: ips,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.CloseForTest(t, c) })
	fleet := balancers.NewFleet(balancers.FleetConfig{Cluster: c, Dir: dir, Addresses: addresses, Delay: shutdownDelay})
	if err := fleet.Start(t.Context(), "1.0.0"); err != nil {
		t.Fatal(err)
	}
	startHAProxy(t, configuration(t, bind, addresses), bind)
	clients, err := balancers.StartClients(balancers.ClientsConfig{
		Name: "haproxy", API: c.APIConfig("https://" + bind), Keep: 4, New: 4, Watches: 2, Pause: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := balancers.Roll(t.Context(), "1.1.0", fleet.Nodes...); err != nil {
		t.Error(err)
	}
	n := clients.Counts()
	wantNone(t, n)
	if n.Requests < 500 {
		t.Errorf("got %d requests: too few to show anything", n.Requests)
	}

	// Requests that are cut here fail. The others go on, at the nodes that are left.
	if err := fleet.Nodes[0].API.Kill(); err != nil {
		t.Fatal(err)
	}
	poll(t, "the gate of the node to close", func() error {
		if fleet.Nodes[0].Sidecar.Readyz(t.Context()) == nil {
			return fmt.Errorf("open")
		}
		return nil
	})
	begin := clients.Counts()
	poll(t, "200 more requests", func() error {
		if more := clients.Counts().Requests - begin.Requests; more < 200 {
			return fmt.Errorf("%d", more)
		}
		return nil
	})
	n = clients.Stop()
	if n.Failed > n.Requests/20 || n.Misfits > 0 || n.Lost > 0 {
		t.Errorf("after a kube-apiserver was killed: got %+v", n)
	}
	t.Logf("%d requests, %d of them failed when a kube-apiserver was killed; %d times 429", n.Requests, n.Failed, n.Retried)
}

// wantNone requires that nothing failed.
func wantNone(t *testing.T, n balancers.Counts) {
	t.Helper()
	if n.Failed+n.Misfits+n.Lost+n.Broken > 0 {
		t.Errorf("got %+v, want that nothing failed", n)
	}
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return host
}
