package service

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/balancers"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/netns"
)

// serviceIP is where clients want to connect. Nothing has this address.
const serviceIP = "10.96.0.1"

// shutdownDelayOfAll has to be longer than a proxy needs to follow: a second after the
// change before.
const shutdownDelayOfAll = 3 * time.Second

// pausedTTL has to be longer than sidecars are paused: they stay in service.
const pausedTTL = 15 * time.Second

// TestClients upgrades three nodes, one after another, to a release that raises both
// constraints, with clients of the Service kubernetes. No request fails, no acknowledged
// write is lost, and no kube-apiserver answers whose release does not fit the objects. Then
// a node stops while nothing else can take its address out.
func TestClients(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	r := newRig(t)
	fleet := balancers.NewFleet(balancers.FleetConfig{
		Cluster: r.c, Dir: t.TempDir(), Addresses: addresses, Delay: shutdownDelayOfAll, Service: true,
		LeaseTTL: pausedTTL,
	})
	r.must(fleet.Start(t.Context(), "1.0.0"))
	clients, proxy := r.startClients()
	_, err := balancers.Roll(t.Context(), "1.1.0", fleet.Nodes[:2]...)
	r.must(err)
	// The delay of this one is too short for any other sidecar.
	fleet.SidecarDelay = 0
	_, err = balancers.Roll(t.Context(), "1.1.0", fleet.Nodes[2])
	r.must(err)
	cluster.Await(t, "the objects of 1.1.0", func(ctx context.Context) error {
		status, err := fleet.Nodes[0].Sidecar.Status(ctx)
		if now := status.Describe(); err == nil && !strings.HasPrefix(now, "DONE 1.1.0 ") {
			err = fmt.Errorf("the status is %s", now)
		}
		return err
	})
	r.awaitProxy(proxy, addresses...)
	n := wantNone(t, "in the upgrade", clients, balancers.Counts{})
	if n.Requests < 500 {
		t.Errorf("got %d requests in the upgrade: too few to show anything", n.Requests)
	}
	r.stopAlone(fleet, proxy, clients)
}

// startClients starts what follows the Service, and its clients. They stop with the test.
func (r *rig) startClients() (*balancers.Clients, *balancers.Proxy) {
	r.Helper()
	var all []string
	for _, a := range addresses {
		all = append(all, net.JoinHostPort(a, port))
	}
	// The clients need a certificate with the name by which they connect.
	api := r.c.APIConfig("https://" + net.JoinHostPort(serviceIP, port))
	api.Dial = balancers.AnyOf(all...)
	proxy, err := balancers.StartProxy(r.Context(), api)
	r.must(err)
	r.Cleanup(proxy.Stop)
	clients, err := balancers.StartClients(balancers.ClientsConfig{
		Name: "service", API: r.c.APIConfig(api.Host), Dial: proxy.Dial, Keep: 4, New: 4, Watches: 2, Pause: 50 * time.Millisecond,
	})
	r.must(err)
	r.Cleanup(func() { clients.Stop() })
	return clients, proxy
}

// stopAlone stops a node while the sidecars of the others are paused, the kube-apiserver
// after the sidecar. So the sidecar has to take its own address out, and its end is the
// sign that it did.
func (r *rig) stopAlone(fleet *balancers.Fleet, proxy *balancers.Proxy, clients *balancers.Clients) {
	n, others := fleet.Nodes[2], fleet.Nodes[:2]
	before := clients.Counts()
	for _, o := range others {
		r.must(o.Sidecar.Signal(syscall.SIGSTOP))
	}
	err := n.Sidecar.Stop()
	if err == nil {
		err = n.API.Stop()
	}
	if err == nil {
		err = moreRequests(r.Context(), clients, 200)
	}
	left := proxy.Addresses()
	for _, o := range others {
		r.must(o.Sidecar.Signal(syscall.SIGCONT))
	}
	r.must(err)
	if slices.Contains(left, net.JoinHostPort(n.Address, port)) {
		r.Errorf("%s has ended, and the Service has %v", n.ID, left)
	}
	wantNone(r.T, "when one node stopped", clients, before)
}

// awaitProxy returns when clients are sent to these addresses.
func (r *rig) awaitProxy(proxy *balancers.Proxy, want ...string) {
	r.Helper()
	cluster.Await(r.T, "clients to use all nodes", func(context.Context) error {
		if got := proxy.Addresses(); len(got) != len(want) {
			return fmt.Errorf("they use %v", got)
		}
		return nil
	})
}

func moreRequests(ctx context.Context, clients *balancers.Clients, n int) error {
	end := clients.Counts().Requests + n
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return cluster.Poll(ctx, func(context.Context) error {
		if now := clients.Counts().Requests; now < end {
			return fmt.Errorf("%d requests, want %d", now, end)
		}
		return nil
	})
}

// wantNone requires that nothing failed, and returns what was counted since before.
func wantNone(t *testing.T, when string, clients *balancers.Clients, before balancers.Counts) balancers.Counts {
	t.Helper()
	n := clients.Counts().Since(before)
	if n.Failed+n.Misfits+n.Lost+n.Broken > 0 {
		t.Errorf("%s: got %+v, want that nothing failed", when, n)
	}
	t.Logf("%s: %d requests; %d times 429", when, n.Requests, n.Retried)
	return n
}
