package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/balancers"
)

// clientsCases returns the cases of clients behind a load balancer and behind the Service
// kubernetes. They need HAProxy and root, so they run only if -cases names them.
func clientsCases() []benchCase {
	return []benchCase{
		{group: "clients", name: "clients", run: benchClients, extra: true, network: true},
		{group: "clients", name: "leave", run: benchLeave, extra: true, network: true},
	}
}

func clientsRows() []string { return []string{rowGateOut, rowAPIOut, rowNodeOut, rowUpgrade} }

const (
	rowGateOut = "a gate closes, until its address has left the Service"
	rowAPIOut  = "kill -9 of a kube-apiserver, until its address has left the Service"
	rowNodeOut = "kill -9 of a node, until its address has left the Service; TTL 5 s"
	rowUpgrade = "upgrade of three nodes, from the first stop until DONE and all gates are open"
)

const (
	// clientDelay is how long a node serves after SIGTERM. HAProxy needs a second to notice.
	clientDelay = 5 * time.Second
	leaderPause = 15 * time.Second
	// clientRequests is how many requests of each kind of client follow each fault.
	clientRequests = 500
)

// benchClients compares what clients see with and without Lockstep.
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
	r := &clientRig{b: b, gatesOnly: true, addresses: networkAddresses(1, 4)}
	if err := r.run(ctx); err != nil {
		return err
	}
	b.reportLeave(r)
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
	without   bool     // without Lockstep
	gatesOnly bool     // do nothing but close gates
	addresses []string // of the nodes, and of HAProxy

	fleet *balancers.Fleet
	slice *sliceObserver
	// clients are those of HAProxy, and those of the Service.
	clients [2]*balancers.Clients

	phases                   []clientPhase
	gateOut, apiOut, nodeOut []time.Duration
	upgrade                  upgradeTimes
}

// ways are those in which clients reach a kube-apiserver.
var ways = [2]string{"HAProxy", "the Service"}

// clientPhase is what clients have seen during one fault.
type clientPhase struct {
	clientFault
	took time.Duration
	seen [2]balancers.Counts
}

// upgradeTimes is what an upgrade of three nodes took.
type upgradeTimes struct {
	balancers.Times
	done time.Duration // from the last gate until DONE
	all  time.Duration
}

// prefix is that of all keys.
func (r *clientRig) prefix() string { return fmt.Sprintf("/clients-%t-%t/", r.without, r.gatesOnly) }

// run runs nodes, with clients, through all faults.
func (r *clientRig) run(ctx context.Context) (err error) {
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
	stop, err := r.startClients(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, f := range r.faults() {
		if err := r.phase(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// phase runs one fault, and counts what clients see.
func (r *clientRig) phase(ctx context.Context, f clientFault) error {
	begin := time.Now()
	var before [2]balancers.Counts
	for way, c := range r.clients {
		before[way] = c.Counts()
	}
	if err := f.run(ctx); err != nil {
		return err
	}
	p := clientPhase{clientFault: f, took: time.Since(begin)}
	if err := r.awaitRequests(ctx); err != nil {
		return err
	}
	for way, c := range r.clients {
		p.seen[way] = c.Counts().Since(before[way])
		progress("%s, without Lockstep=%t, %s: %+v", f.name, r.without, ways[way], p.seen[way])
	}
	r.phases = append(r.phases, p)
	return nil
}

// startClients starts HAProxy, what follows the Service, and the clients of both. As
// kubeadm configures kube-proxy, it watches through the load balancer.
func (r *clientRig) startClients(ctx context.Context, dir string) (stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var errs []error
		for i := range stops {
			errs = append(errs, stops[len(stops)-1-i]())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	bind := net.JoinHostPort(r.addresses[3], port)
	config, err := r.haproxyConfig(bind)
	if err != nil {
		return stop, err
	}
	program, err := balancers.StartHAProxy(dir, config, bind)
	if err != nil {
		return stop, err
	}
	stops = append(stops, program.Stop)
	api := r.b.cluster.APIConfig("https://" + bind)
	proxy, err := balancers.StartProxy(ctx, api)
	if err != nil {
		return stop, err
	}
	stops = append(stops, func() error { proxy.Stop(); return nil })
	service := r.b.cluster.APIConfig("https://" + net.JoinHostPort(networkAddress(maxNetworkAddresses), port))
	for way, cfg := range []balancers.ClientsConfig{{API: api}, {API: service, Dial: proxy.Dial}} {
		cfg.Name, cfg.Keep, cfg.New, cfg.Watches, cfg.Pause = fmt.Sprintf("bench-%d", way), 4, 4, 2, 20*time.Millisecond
		c, err := balancers.StartClients(cfg)
		if err != nil {
			return stop, err
		}
		r.clients[way] = c
		stops = append(stops, func() error { c.Stop(); return nil })
	}
	return stop, nil
}

// haproxyConfig is the configuration of the page. Without Lockstep, the check is that of
// the kube-apiserver itself.
func (r *clientRig) haproxyConfig(bind string) (string, error) {
	assets, err := filepath.Abs(r.b.opts.assets)
	if err != nil {
		return "", err
	}
	replacements := []string{"bind :6443", "bind " + bind}
	for i, address := range r.addresses[:3] {
		replacements = append(replacements, fmt.Sprintf("10.0.0.%d:6443", 1+i), net.JoinHostPort(address, port))
	}
	if r.without {
		replacements = append(replacements, "check port 8086", "check check-ssl verify none")
	}
	// The binaries are in a directory of the repository.
	return balancers.Block(filepath.Join(assets, "..", "docs", "load-balancers.md"), "haproxy", replacements...)
}

// awaitRequests returns when each kind of client has ended clientRequests more.
func (r *clientRig) awaitRequests(ctx context.Context) error {
	for _, c := range r.clients {
		end := c.Counts().Requests + clientRequests
		for c.Counts().Requests < end {
			if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}
