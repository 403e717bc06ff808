package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/test/balancers"
)

// clientsCases returns the case of clients behind a load balancer. It needs HAProxy, so it
// runs only if -cases names it.
func clientsCases() []benchCase {
	return []benchCase{{group: "clients", name: "clients", run: benchClients, extra: true}}
}

const (
	// clientDelay is how long a node serves after SIGTERM. HAProxy needs a second to notice.
	clientDelay = 5 * time.Second
	leaderPause = 15 * time.Second
	// clientRequests is how many requests follow each fault.
	clientRequests = 500
)

// clientPhase is what clients have seen during one fault.
type clientPhase struct {
	name string
	took time.Duration
	seen balancers.Counts
}

// benchClients compares what clients of HAProxy see with and without Lockstep.
func benchClients(ctx context.Context, b *bench) error {
	var columns [2][]clientPhase
	for i, without := range []bool{false, true} {
		var err error
		if columns[i], err = b.clientPhases(ctx, without); err != nil {
			return err
		}
	}
	b.prints = append(b.prints, func(w io.Writer) { printClients(w, columns[0], columns[1]) })
	return nil
}

// clientPhases runs nodes behind HAProxy, with clients, through all faults.
func (b *bench) clientPhases(ctx context.Context, without bool) (phases []clientPhase, err error) {
	assets, err := filepath.Abs(b.opts.assets)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, fmt.Sprintf("clients-%t", without))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	var addresses []string
	for range 4 {
		b.addresses++
		addresses = append(addresses, addressOf(b.addresses))
	}
	fleet := balancers.NewFleet(balancers.FleetConfig{
		Cluster: b.cluster, Dir: dir, Addresses: addresses[:3], Delay: clientDelay,
		Prefix: fmt.Sprintf("/clients-%t/", without), WithoutLockstep: without,
	})
	if err := fleet.Start(ctx, "1.0.0"); err != nil {
		return nil, err
	}
	// The binaries are in a directory of the repository.
	bind := net.JoinHostPort(addresses[3], port)
	config, err := clientConfig(filepath.Join(assets, "..", "docs", "load-balancers.md"), bind, addresses[:3], without)
	if err != nil {
		return nil, err
	}
	proxy, err := balancers.StartHAProxy(dir, config, bind)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, proxy.Stop(), fleet.Stop()) }()
	clients, err := balancers.StartClients(balancers.ClientsConfig{
		Name: "bench", API: b.cluster.APIConfig("https://" + bind), Keep: 4, New: 4, Watches: 2, Pause: 20 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	defer clients.Stop()
	for _, f := range clientFaults(fleet, without) {
		before, begin := clients.Counts(), time.Now()
		if err := f.run(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		took := time.Since(begin)
		if err := awaitRequests(ctx, clients, clientRequests); err != nil {
			return nil, err
		}
		seen := clients.Counts().Since(before)
		progress("%s, without Lockstep=%t: %+v", f.name, without, seen)
		phases = append(phases, clientPhase{f.name, took, seen})
	}
	return phases, nil
}

// clientConfig is the configuration of the page. Without Lockstep, the check is that of
// the kube-apiserver itself.
func clientConfig(page, bind string, addresses []string, without bool) (string, error) {
	replacements := []string{"bind :6443", "bind " + bind}
	for i, address := range addresses {
		replacements = append(replacements, fmt.Sprintf("10.0.0.%d:6443", 1+i), net.JoinHostPort(address, port))
	}
	if without {
		replacements = append(replacements, "check port 8086", "check check-ssl verify none")
	}
	return balancers.Block(page, "haproxy", replacements...)
}

type clientFault struct {
	name string
	run  func(context.Context) error
}

func clientFaults(fleet *balancers.Fleet, without bool) []clientFault {
	again := func(ctx context.Context, n *balancers.Node, kill func() error) error {
		if err := kill(); err != nil {
			return err
		}
		if !backoff.Sleep(ctx, leaderPause) {
			return ctx.Err()
		}
		if err := errors.Join(n.Stop(), n.Start("1.1.0")); err != nil {
			return err
		}
		return n.AwaitReady(ctx)
	}
	faults := []clientFault{
		{"upgrade of two nodes, then back", func(ctx context.Context) error {
			two := fleet.Nodes[:2]
			if err := balancers.Roll(ctx, "1.1.0", two...); err != nil {
				return err
			}
			return balancers.Roll(ctx, "1.0.0", two...)
		}},
		{"upgrade of three nodes", func(ctx context.Context) error { return balancers.Roll(ctx, "1.1.0", fleet.Nodes...) }},
		{"node killed, started again", func(ctx context.Context) error { return again(ctx, fleet.Nodes[0], fleet.Nodes[0].Kill) }},
		{"kube-apiserver killed, node started again", func(ctx context.Context) error { return again(ctx, fleet.Nodes[1], fleet.Nodes[1].API.Kill) }},
	}
	if !without {
		faults = append(faults, clientFault{
			"leader paused for " + leaderPause.String(), func(ctx context.Context) error { return pauseLeader(ctx, fleet) },
		})
	}
	return append(faults, clientFault{"rollback of three nodes", func(ctx context.Context) error { return fleet.RollBack(ctx, "1.0.0") }})
}

// pauseLeader stops the sidecar that leads for a while.
func pauseLeader(ctx context.Context, fleet *balancers.Fleet) error {
	for _, n := range fleet.Nodes {
		status, err := n.Sidecar.Status(ctx)
		if err != nil {
			return err
		}
		if status.Election.State != "leading" {
			continue
		}
		if err := n.Sidecar.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		_ = backoff.Sleep(ctx, leaderPause) // it has to go on in each case
		if err := n.Sidecar.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		return n.AwaitReady(ctx)
	}
	return errors.New("no node leads")
}

// awaitRequests returns when n more requests have ended.
func awaitRequests(ctx context.Context, clients *balancers.Clients, n int) error {
	begin := clients.Counts().Requests
	for clients.Counts().Requests < begin+n {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func printClients(w io.Writer, with, without []clientPhase) {
	table := [][]string{{
		"what happens", "", "took", "requests", "failed",
		"of these, writes of unknown outcome", "answers that do not fit", "acknowledged writes lost",
	}}
	for i, side := range [][]clientPhase{with, without} {
		who := []string{"Lockstep", "without"}[i]
		for _, p := range side {
			n := p.seen
			table = append(table, []string{
				p.name, who, short(p.took), fmt.Sprint(n.Requests),
				fmt.Sprint(n.Failed), fmt.Sprint(n.Unknown), fmt.Sprint(n.Misfits), fmt.Sprint(n.Lost),
			})
		}
	}
	fmt.Fprintln(w)
	writeTable(w, table)
}
