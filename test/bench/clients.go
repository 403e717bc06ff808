package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/balancers"
)

// clientsCases returns the cases of clients behind a load balancer and behind the Service
// kubernetes. The others are parts of the first.
func clientsCases() []benchCase {
	return []benchCase{
		{group: "clients", name: "clients", run: benchClients, network: true, programs: []string{"haproxy"}},
		{group: "clients", name: "leave", run: benchLeave, extra: true, network: true, programs: []string{"haproxy"}},
		{group: "clients", name: "back", run: benchBack, extra: true, network: true, programs: []string{"haproxy"}},
	}
}

func clientsRows() []string {
	return []string{rowGateOut, rowGateBusy, rowAPIOut, rowNodeOut, rowUpgrade, rowBack}
}

const (
	rowGateOut  = "a gate closes, until its address has left the Service"
	rowGateBusy = "the same, while the clients take all the CPU time that they get"
	rowAPIOut   = "kill -9 of a kube-apiserver, until its address has left the Service"
	rowNodeOut  = "kill -9 of a node, until its address has left the Service; TTL 5 s"
	rowUpgrade  = "upgrade of three nodes, from the first stop until DONE and all gates are open"
	rowBack     = "rollback of three nodes, from sidecar rollback begin until DONE and all gates are open"
)

const (
	// clientDelay is how long a node serves after SIGTERM. HAProxy needs a second to notice.
	clientDelay = 5 * time.Second
	leaderPause = 15 * time.Second
	// Clients that pause for so long leave CPU time to kube-apiserver.
	calmPause = 200 * time.Millisecond
	busyPause = 20 * time.Millisecond
	// clientRequests is how many requests of each kind of client follow each fault.
	clientRequests = 500
)

// benchClients compares the failures that clients see with Lockstep and without.
func benchClients(ctx context.Context, b *bench) error {
	var rigs [2]*clientRig
	for i, without := range []bool{false, true} {
		rigs[i] = &clientRig{b: b, without: without, addresses: networkAddresses(1+4*i, 4)}
		if err := rigs[i].run(ctx); err != nil {
			return err
		}
	}
	b.reportClients(rigs[0], rigs[1])
	return nil
}

// benchLeave is the part of benchClients that closes gates.
func benchLeave(ctx context.Context, b *bench) error {
	r := &clientRig{b: b, only: onlyGates, addresses: networkAddresses(1, 4)}
	if err := r.run(ctx); err != nil {
		return err
	}
	b.reportLeave(r)
	return nil
}

// benchBack is the part of benchClients that upgrades all nodes and rolls them back.
func benchBack(ctx context.Context, b *bench) error {
	r := &clientRig{b: b, only: onlyBack, addresses: networkAddresses(1, 4)}
	if err := r.run(ctx); err != nil {
		return err
	}
	b.report.measured(rowUpgrade, bar{}, []time.Duration{r.upgrade.all})
	b.reportBack(r)
	b.prints = append(b.prints, func(w io.Writer) { printClients(w, r) })
	return nil
}

// networkAddresses returns n addresses in a row.
func networkAddresses(first, n int) (out []string) {
	for i := range n {
		out = append(out, networkAddress(first+i))
	}
	return out
}

// clientRig is three nodes, behind HAProxy and in the Service kubernetes, and clients of both.
type clientRig struct {
	b         *bench
	without   bool       // without Lockstep
	only      clientPart // of the faults
	addresses []string   // of the nodes, and of HAProxy

	fleet   *balancers.Fleet
	slice   *sliceObserver
	traffic *balancers.Traffic

	phases  []clientPhase
	gateOut map[time.Duration][]time.Duration // by the pause of the clients
	apiOut  []time.Duration
	nodeOut []time.Duration
	upgrade upgradeTimes
	back    upgradeTimes
}

// clientPhase counts the requests of clients during one fault.
type clientPhase struct {
	clientFault
	took time.Duration
	seen [2]balancers.Counts
}

// clientPart is a part of the faults.
type clientPart string

const (
	onlyGates    clientPart = "gates"    // do nothing but close gates
	onlyBack     clientPart = "back"     // upgrade and roll back
	onlyRestarts clientPart = "restarts" // restart the kube-apiservers of all nodes
)

// upgradeTimes are the times that an upgrade or a rollback of three nodes took.
type upgradeTimes struct {
	balancers.Times
	done time.Duration // from the last gate until DONE
	all  time.Duration
}

// prefix returns the prefix of all keys.
func (r *clientRig) prefix() string { return fmt.Sprintf("/clients-%t-%s/", r.without, r.only) }

// run runs nodes, with clients, through all faults.
func (r *clientRig) run(ctx context.Context) (err error) {
	r.gateOut = map[time.Duration][]time.Duration{}
	dir := filepath.Join(r.b.dir, strings.Trim(r.prefix(), "/"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	r.fleet = balancers.NewFleet(balancers.FleetConfig{
		Cluster: r.b.cluster, Dir: dir, Addresses: r.addresses[:3], Delay: clientDelay,
		Prefix: r.prefix(), Service: true, WithoutLockstep: r.without,
	})
	if err := r.fleet.Start(ctx, "1.0.0"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.fleet.Stop()) }()
	if r.slice, err = observeSlice(ctx, r.b.etcd, r.prefix()+"registry"); err != nil {
		return err
	}
	defer r.slice.close()
	if err := r.slice.awaitAll(ctx, r.addresses[:3]); err != nil {
		return err
	}
	if err := r.startTraffic(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.traffic.Stop()) }()
	for _, f := range r.faults() {
		if err := r.phase(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// phase runs one fault, and counts the clients' requests meanwhile.
func (r *clientRig) phase(ctx context.Context, f clientFault) error {
	begin, before := time.Now(), r.traffic.Begin()
	if err := f.run(ctx); err != nil {
		return err
	}
	p := clientPhase{clientFault: f, took: time.Since(begin)}
	if err := r.traffic.More(ctx, clientRequests); err != nil {
		return err
	}
	p.seen = r.traffic.Since(before)
	for way, seen := range p.seen {
		progress("%s, without Lockstep=%t, %s: %+v", f.name, r.without, balancers.Ways[way], seen)
	}
	r.phases = append(r.phases, p)
	return nil
}

func (r *clientRig) startTraffic(ctx context.Context) error {
	assets, err := filepath.Abs(r.b.opts.assets)
	if err != nil {
		return err
	}
	r.traffic, err = r.fleet.StartTraffic(ctx, balancers.TrafficConfig{
		// The binaries are in a directory of the repository.
		Page:    filepath.Join(assets, "..", "docs", "load-balancers.md"),
		HAProxy: r.addresses[3], Service: networkAddress(maxNetworkAddresses),
		Keep: 4, New: 4, Watches: 2, Pause: busyPause,
	})
	return err
}
