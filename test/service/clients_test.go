package service

import (
	"net"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/balancers"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/netns"
)

const (
	// serviceIP is where clients of the Service want to connect. Nothing has this address.
	serviceIP = "10.96.0.1"
	// haproxyIP is where HAProxy listens.
	haproxyIP = "10.90.0.9"
)

// shutdownDelayOfAll has to be longer than HAProxy and a proxy need to follow: a second,
// and a second after the change before.
const shutdownDelayOfAll = 3 * time.Second

// pausedTTL has to be longer than sidecars are paused that stay in service.
const pausedTTL = 15 * time.Second

// clientsRig is three nodes, with clients that use HAProxy and the Service kubernetes at
// once. The sidecars have an etcd of three members, which the kube-apiservers do not use.
type clientsRig struct {
	*rig
	members []*cluster.Member
	fleet   *balancers.Fleet
	traffic *balancers.Traffic
}

// clientsPart is something that happens to the nodes.
type clientsPart struct {
	name string
	run  func(*clientsRig)
	// mayFail has the ways in which requests may fail. No answer may be of a kube-apiserver
	// that does not fit the objects, and no acknowledged write may be lost, in any way.
	mayFail [2]bool
}

var (
	noneFails   = [2]bool{}
	withHAProxy = [2]bool{true, false}
	withBoth    = [2]bool{true, true}
)

// TestClients is long: each part needs three nodes with clients. After each of them,
// HAProxy and the Service lead to all nodes again, and requests succeed.
func TestClients(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Skip("SKIPPED, NOT TESTED: needs haproxy: apt-get install --no-install-recommends haproxy")
	}
	if !netns.Enter(t) {
		return
	}
	(&rig{T: t}).run("ip", "link", "set", "lo", "up")
	members := cluster.NewMembersForTest(t) // they end last
	r := &clientsRig{rig: newRig(t), members: members}
	r.start()
	for _, part := range []clientsPart{
		{"an upgrade raises both constraints", upgrade, noneFails},
		// The checks of HAProxy get no answer of a paused sidecar.
		{"a node stops while all other sidecars are paused", stopAlone, withHAProxy},
		{"two nodes go back without a rollback, and then with one", rollBackTwo, noneFails},
		{"in the rollback, the leader is killed, and the last node, twice: also while it goes back", rollBackByCrashes, withBoth},
		{"a node is killed", func(r *clientsRig) { r.outage(0, true) }, withBoth},
		{"a kube-apiserver is killed", func(r *clientsRig) { r.outage(1, false) }, withBoth},
		{"the leader is paused for longer than its lease lives", pauseLeaderOfClients, noneFails},
		{"all nodes are upgraded and rolled back, and the leading member of etcd is killed twice meanwhile", upgradeAndRollBack, noneFails},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			was := r.T
			r.T = t
			defer func() { r.T = was }()
			r.play(part)
		}) {
			return
		}
	}
}

// start starts the nodes, and then the clients. They stop with the test.
func (r *clientsRig) start() {
	r.Helper()
	r.fleet = balancers.NewFleet(balancers.FleetConfig{
		Cluster: r.c, Dir: r.TempDir(), Addresses: addresses, Delay: shutdownDelayOfAll, Service: true, LeaseTTL: pausedTTL,
		Objects: rollbackObjects, EtcdServers: r.etcdServers(),
	})
	r.must(r.fleet.Start(r.Context(), "1.0.0"))
	var all []string
	for _, a := range addresses {
		all = append(all, net.JoinHostPort(a, port))
	}
	var err error
	r.traffic, err = r.fleet.StartTraffic(r.Context(), balancers.TrafficConfig{
		Page: "../../docs/load-balancers.md", HAProxy: haproxyIP, Service: serviceIP,
		Keep: 2, New: 2, Watches: 1, Pause: 200 * time.Millisecond,
		Watch: balancers.AnyOf(all...), // it has to follow while HAProxy leads nowhere
	})
	r.must(err)
	whole := r.T
	r.Cleanup(func() {
		if whole.Failed() {
			whole.Log(r.traffic.HAProxyLog())
		}
		if err := r.traffic.Stop(); err != nil {
			whole.Error(err)
		}
	})
	r.must(r.traffic.AwaitNodes(r.Context(), r.fleet.Nodes...))
}

// play runs a part, and requires what clients have to see. A kube-apiserver that stops closes
// its connections after two seconds. On a busy machine that may cut a watch, after which
// clients list again, so it does not count.
func (r *clientsRig) play(part clientsPart) {
	before := r.traffic.Begin()
	part.run(r)
	r.must(r.traffic.AwaitNodes(r.Context(), r.fleet.Nodes...))
	for way, n := range r.traffic.Since(before) {
		if n.Misfits+n.Lost > 0 || n.Failed > 0 && !part.mayFail[way] {
			r.Errorf("clients of %s: got %+v", balancers.Ways[way], n)
		}
		r.Logf("clients of %s: %d requests, %d failed; %d times 429; %d watches cut", balancers.Ways[way], n.Requests, n.Failed, n.Retried, n.Broken)
	}
	r.must(r.traffic.AwaitSuccess(r.Context(), 20))
}

func upgrade(r *clientsRig) {
	before := r.traffic.Begin()
	_, err := balancers.Roll(r.Context(), "1.1.0", r.fleet.Nodes[:2]...)
	r.must(err)
	// The delay of this one is too short for any other sidecar.
	r.fleet.SidecarDelay = 0
	_, err = balancers.Roll(r.Context(), "1.1.0", r.fleet.Nodes[2])
	r.must(err)
	r.must(r.fleet.AwaitDone(r.Context(), "1.1.0"))
	for way, n := range r.traffic.Since(before) {
		if n.Requests < 200 {
			r.Errorf("got %d requests of clients of %s in the upgrade: too few to show anything", n.Requests, balancers.Ways[way])
		}
	}
}

// stopAlone stops a node while the sidecars of the others are paused, the kube-apiserver
// after the sidecar. So the sidecar has to take its own address out, and its end is the
// sign that it did.
func stopAlone(r *clientsRig) {
	n, others := r.fleet.Nodes[2], r.fleet.Nodes[:2]
	for _, o := range others {
		r.must(o.Sidecar.Signal(syscall.SIGSTOP))
	}
	err := n.Sidecar.Stop()
	if err == nil {
		err = n.API.Stop()
	}
	if err == nil {
		err = r.traffic.More(r.Context(), 100)
	}
	left := r.traffic.Proxy.Addresses()
	for _, o := range others {
		r.must(o.Sidecar.Signal(syscall.SIGCONT))
	}
	r.must(err)
	if slices.Contains(left, net.JoinHostPort(n.Address, port)) {
		r.Errorf("%s has ended, and the Service has %v", n.ID, left)
	}
	r.fleet.SidecarDelay, r.fleet.LeaseTTL = shutdownDelayOfAll, balancers.LeaseTTL
	r.must(n.Start("1.1.0"))
	r.must(n.AwaitReady(r.Context()))
}

// outage kills a node, or its kube-apiserver only. Clients go on without it.
func (r *clientsRig) outage(at int, whole bool) {
	n := r.fleet.Nodes[at]
	r.must(n.Outage(r.Context(), whole, "1.0.0", func() error { return r.goesOnWithout(n) }))
}

// goesOnWithout returns when nothing leads to a node, and requests succeed all the same.
func (r *clientsRig) goesOnWithout(n *balancers.Node) error {
	if err := r.traffic.AwaitNodes(r.Context(), r.fleet.Others(n)...); err != nil {
		return err
	}
	return r.traffic.AwaitSuccess(r.Context(), 50)
}

// pauseLeaderOfClients pauses a sidecar. Its kube-apiserver serves, so no request fails.
func pauseLeaderOfClients(r *clientsRig) {
	r.must(r.fleet.PauseLeader(r.Context(), func(n *balancers.Node) error {
		if _, err := balancers.AwaitLeader(r.Context(), r.fleet.Others(n)...); err != nil {
			return err
		}
		return r.goesOnWithout(n)
	}))
}
