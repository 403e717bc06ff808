package main

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/balancers"
)

// clientFault is something that happens to the nodes.
type clientFault struct {
	name    string
	upgrade bool // nodes stop gracefully, and no request may fail
	run     func(context.Context) error
}

const (
	clientKills = 4
	// Without Lockstep an address stays for 15 seconds.
	clientKillsWithout = 2
)

func (r *clientRig) faults() []clientFault {
	kills := clientKills
	if r.without {
		kills = clientKillsWithout
	}
	times := fmt.Sprintf(", %d times", kills)
	killing := func(whole bool) func(context.Context) error {
		return func(ctx context.Context) error { return r.kill(ctx, kills, whole) }
	}
	var out []clientFault
	for _, p := range []time.Duration{calmPause, busyPause} {
		if !r.without {
			name := fmt.Sprintf("gate closed and opened, %d times; clients pause for %s", r.b.opts.n, p)
			out = append(out, clientFault{name: name, run: func(ctx context.Context) error { return r.closeGates(ctx, p) }})
		}
	}
	back := clientFault{name: "rollback of three nodes", upgrade: true, run: r.rollBack}
	switch r.only {
	case onlyGates:
		return out
	case onlyRestarts:
		return r.restarts(restartSleep)
	case onlyBack:
		return []clientFault{{name: "upgrade of three nodes", upgrade: true, run: r.upgradeAll}, back}
	}
	out = append(out, r.restarts(shortSleep)...) // before the upgrades: it starts the first release
	out = append(
		out,
		clientFault{name: "upgrade of two nodes, then back", upgrade: true, run: r.upgradeAndBack},
		clientFault{name: "upgrade of three nodes", upgrade: true, run: r.upgradeAll},
	)
	if !r.without {
		out = append(out, clientFault{name: "leader paused for " + leaderPause.String(), run: r.pauseLeader})
	}
	// The last one changes no leader, and takes longer than a leader waits for the requests of one that died: the rollback
	// begins as the upgrade did.
	out = append(
		out,
		clientFault{name: "node killed, started again" + times, run: killing(true)},
		clientFault{name: "kube-apiserver killed, started again" + times, run: killing(false)},
	)
	return append(out, back)
}

func (r *clientRig) upgradeAndBack(ctx context.Context) error {
	two := r.fleet.Nodes[:2]
	for _, release := range []string{"1.1.0", "1.0.0"} {
		if _, err := balancers.Roll(ctx, release, two...); err != nil {
			return err
		}
	}
	return nil
}

func (r *clientRig) upgradeAll(ctx context.Context) error {
	begin := time.Now()
	took, err := balancers.Roll(ctx, "1.1.0", r.fleet.Nodes...)
	if err != nil {
		return err
	}
	open := time.Now()
	if !r.without {
		if err := r.fleet.AwaitDone(ctx, "1.1.0"); err != nil {
			return err
		}
	}
	r.upgrade = upgradeTimes{Times: took, done: time.Since(open), all: time.Since(begin)}
	return nil
}

// rollBack types the commands of docs/operations.md#roll-back. Without Lockstep, nodes just go back.
func (r *clientRig) rollBack(ctx context.Context) error {
	begin := time.Now()
	if !r.without {
		cmd := exec.CommandContext(ctx, r.b.cluster.SidecarBinary(), "rollback", "begin", "--to=1.0.0",
			"--etcd-servers="+r.b.cluster.Etcd.Endpoints()[0], "--etcd-prefix="+r.prefix())
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("sidecar rollback begin: %w: %s", err, out)
		}
	}
	took, err := balancers.Roll(ctx, "1.0.0", r.fleet.Nodes...)
	if err != nil {
		return err
	}
	open := time.Now()
	if !r.without {
		if err := r.fleet.AwaitDone(ctx, "1.0.0"); err != nil {
			return err
		}
	}
	r.back = upgradeTimes{Times: took, done: time.Since(open), all: time.Since(begin)}
	return nil
}

// kill kills nodes, or their kube-apiservers, one after another, and starts each again after
// its address left the Service and clients went on without it.
func (r *clientRig) kill(ctx context.Context, times int, whole bool) error {
	out := &r.apiOut
	if whole {
		out = &r.nodeOut
	}
	for i := range times {
		n := r.fleet.Nodes[i%len(r.fleet.Nodes)]
		left := r.slice.when(lacks(n.Address))
		begin := time.Now()
		err := n.Outage(ctx, whole, "1.1.0", func() error {
			at, err := await(ctx, n.Address+" to leave the Service", left)
			if err != nil {
				return err
			}
			*out = append(*out, at.Sub(begin))
			return r.traffic.More(ctx, clientRequests)
		})
		if err != nil {
			return err
		}
		if err := r.slice.awaitAll(ctx, r.addresses[:3]); err != nil {
			return err
		}
	}
	return nil
}

// closeGates takes nodes out of service and returns them, with clients that pause for so
// long between two requests.
func (r *clientRig) closeGates(ctx context.Context, rest time.Duration) error {
	r.traffic.SetPause(rest)
	defer r.traffic.SetPause(busyPause)
	client, err := etcd.NewClient(etcd.Config{
		Endpoints: r.b.cluster.Etcd.Endpoints(), Prefix: r.prefix(),
		RequestTimeout: patience, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	var observers sidecarObservers
	for _, n := range r.fleet.Nodes {
		o := observe(ctx, n.Sidecar.URL())
		defer o.close()
		observers = append(observers, o)
	}
	for i := range r.b.opts.n {
		at := i % len(observers)
		if err := observers.settle(ctx); err != nil {
			return err
		}
		took, err := r.closeGate(ctx, client, r.fleet.Nodes[at], observers[at])
		if err != nil {
			return err
		}
		r.gateOut[rest] = append(r.gateOut[rest], took)
	}
	return nil
}

// sidecarObservers observe the sidecars of all nodes.
type sidecarObservers []*observer

// settle returns when all sidecars know that nothing is left to write.
func (t sidecarObservers) settle(ctx context.Context) error {
	for _, o := range t {
		if _, err := await(ctx, "the Service to be published", o.when(view.published)); err != nil {
			return err
		}
	}
	return nil
}

// closeGate closes one gate, and opens it again. The gate's own time of closing counts,
// which is rounded down to a millisecond.
func (r *clientRig) closeGate(ctx context.Context, client *etcd.Client, n *balancers.Node, o *observer) (time.Duration, error) {
	cordon := func(c protocol.Cordon) error {
		_, err := fleet.SetCordon(ctx, client, protocol.NodeID(n.ID), fleet.CordonChange{Cordon: c})
		return err
	}
	left := r.slice.when(lacks(n.Address))
	if err := cordon(protocol.Cordon{Since: time.Now()}); err != nil {
		return 0, err
	}
	if _, err := await(ctx, "the gate to close", o.when(func(v view) bool { return !v.Ready.Ready })); err != nil {
		return 0, err
	}
	closed := o.latest().Ready.Since
	at, err := await(ctx, n.Address+" to leave the Service", left)
	if err != nil {
		return 0, err
	}
	if err := cordon(protocol.Cordon{}); err != nil {
		return 0, err
	}
	if _, err := await(ctx, "the gate to open", o.when(func(v view) bool { return v.Ready.Ready })); err != nil {
		return 0, err
	}
	return at.Sub(closed), r.slice.awaitAll(ctx, r.addresses[:3])
}

// pauseLeader stops the sidecar that leads for a while.
func (r *clientRig) pauseLeader(ctx context.Context) error {
	return r.fleet.PauseLeader(ctx, func(*balancers.Node) error {
		_ = backoff.Sleep(ctx, leaderPause) // it must go on in each case
		return nil
	})
}

// sliceObserver follows the EndpointSlice kubernetes in etcd, so that no kube-apiserver is
// needed for it. It keeps the stored text, which contains the addresses.
type sliceObserver struct {
	cancel context.CancelFunc
	sightings[string]
}

// observeSlice follows the slice of the kube-apiservers whose objects are under a prefix.
func observeSlice(ctx context.Context, client *clientv3.Client, registry string) (*sliceObserver, error) {
	key := registry + "/endpointslices/default/kubernetes"
	now, err := client.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	o := &sliceObserver{cancel: cancel}
	text := ""
	for _, kv := range now.Kvs {
		text = string(kv.Value)
	}
	o.record(text, time.Now())
	events := client.Watch(ctx, key, clientv3.WithRev(now.Header.Revision+1))
	go func() {
		for resp := range events { // until ctx ends
			at := time.Now()
			for _, e := range resp.Events {
				o.record(string(e.Kv.Value), at)
			}
		}
	}()
	return o, nil
}

func (o *sliceObserver) close() { o.cancel() }

func lacks(address string) func(string) bool {
	return func(stored string) bool { return !strings.Contains(stored, address) }
}

// awaitAll returns when the slice contains all these addresses.
func (o *sliceObserver) awaitAll(ctx context.Context, addresses []string) error {
	_, err := await(ctx, "the Service to have all addresses", o.when(func(stored string) bool {
		for _, a := range addresses {
			if !strings.Contains(stored, a) {
				return false
			}
		}
		return true
	}))
	return err
}
