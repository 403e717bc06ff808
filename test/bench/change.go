package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// changeCases returns the cases that measure how fast a change takes effect.
func changeCases() []benchCase {
	return []benchCase{
		{group: "change", name: "stop", run: benchStop},
		{group: "change", name: "kill", run: benchKill},
		{group: "change", name: "newer", run: benchNewer},
		{group: "change", name: "blocker", run: benchBlocker},
		{group: "change", name: "gate", run: benchGate},
		{group: "change", name: "record", run: benchRecord},
		{group: "change", name: "tenant", run: benchTenant},
		{group: "change", name: "records", run: benchRecords},
		{group: "change", name: "idle", run: benchIdle},
		{group: "change", name: "recorder", run: benchRecorder, extra: true},
	}
}

func changeRows() []string {
	return append([]string{rowStop, rowDone, rowKill, rowNewer, rowBare, rowNewest, rowBlocker, rowGate, rowRecord}, tenantRows()...)
}

// The rows, for Lockstep and for the peers.
const (
	rowStop    = "SIGTERM to the leader, until another has confirmed that it leads"
	rowDone    = "the same, until the status is DONE by it: 1,000 objects, unchanged"
	rowKill    = "kill -9 of the leader, until another leads; TTL 5 s"
	rowNewer   = "a newer release joins, until it leads"
	rowBare    = "just before, a bare write to etcd: the older leader has to make one"
	rowNewest  = "SIGTERM to the only newest, until an older one leads"
	rowBlocker = "the last blocker is removed, until the first object is written"
	rowGate    = "status committed, until /readyz of every other node follows it"
	rowRecord  = "record overwritten, until registered and ready again"
)

const (
	leaseTTL = 5 * time.Second // in the case kill; etcd rejects less than 2 s
	// keepAlivePause is the time between two keep-alives of such a lease.
	keepAlivePause = (leaseTTL - time.Second) * 4 / 9
)

// benchStop runs three sidecars, and stops and restarts the leader.
func benchStop(ctx context.Context, b *bench) error {
	api, err := b.startAPI("stop")
	if err != nil {
		return err
	}
	dir, err := b.writeBundle(bundleSpec{name: "stop", release: "1.0.0", objects: thousand("stop")})
	if err != nil {
		return err
	}
	nodes, err := b.startTrio(ctx, cluster.SidecarConfig{
		NodeID: "stop", Kubeconfig: api.Kubeconfig(), Bundle: dir, EtcdPrefix: prefixOf("stop"),
	}, 3)
	if err != nil {
		return err
	}
	before, err := b.fingerprint(ctx, registryOf("stop"))
	if err != nil {
		return err
	}
	var leads, done []time.Duration
	for range b.opts.n {
		l, d, err := stopOnce(ctx, nodes)
		if err != nil {
			return err
		}
		leads, done = append(leads, l), append(done, d)
	}
	after, err := b.fingerprint(ctx, registryOf("stop"))
	if err != nil {
		return err
	}
	b.report.measured(rowStop, bar{p50: 15 * time.Millisecond, p99: 100 * time.Millisecond}, leads)
	b.report.measured(rowDone, bar{max: 500 * time.Millisecond}, done)
	b.report.fact(fmt.Sprintf("objects written in %d changes of the leader", len(done)), writesBetween(before, after), "0", before == after)
	return errors.Join(nodes.stop(), api.Stop())
}

// stopOnce stops the leader, and starts it again when another leads.
func stopOnce(ctx context.Context, nodes trio) (leads, done time.Duration, err error) {
	leader, others := nodes.leader()
	begin, err := leader.signal(syscall.SIGTERM)
	if err != nil {
		return 0, 0, err
	}
	next, led, err := others.first(ctx, "another to lead", view.leads)
	if err != nil {
		return 0, 0, err
	}
	settled, err := next.await(ctx, "to have made its pass", view.settled)
	if err != nil {
		return 0, 0, err
	}
	if err := leader.stop(); err != nil {
		return 0, 0, err
	}
	if err := leader.start(ctx); err != nil {
		return 0, 0, err
	}
	_, err = leader.await(ctx, "to wait for the leadership", view.waits)
	return led.Sub(begin), settled.Sub(begin), err
}

// fingerprint identifies the versions of all objects of the bundles' kinds. It
// changes with every write, also if a later write undoes it.
func (b *bench) fingerprint(ctx context.Context, registry string) (string, error) {
	sum := sha256.New()
	for _, kind := range []string{"clusterroles", "clusterrolebindings", "priorityclasses", "storageclasses", "configmaps/default"} {
		resp, err := b.etcd.Get(ctx, registry+"/"+kind+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return "", err
		}
		for _, kv := range resp.Kvs {
			fmt.Fprintf(sum, "%s %d\n", kv.Key, kv.ModRevision)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// writesBetween shows whether two fingerprints differ.
func writesBetween(before, after string) string {
	if before == after {
		return "0"
	}
	return "some"
}

// benchKill runs six pairs at the same time, each with keys of its own. It kills the
// leader of each, and starts it again to wait. All have one kube-apiserver, so only one
// pair applies objects: the leaders of the others hold, as each has another store.
func benchKill(ctx context.Context, b *bench) error {
	const pairs = 6
	api, err := b.startAPI("kill")
	if err != nil {
		return err
	}
	dir, err := b.writeBundle(bundleSpec{name: "kill", release: "1.0.0", objects: few("kill", "one")})
	if err != nil {
		return err
	}
	var all []trio
	for i := range pairs {
		name := fmt.Sprintf("kill-%d", i)
		nodes, err := b.startGroup(ctx, cluster.SidecarConfig{
			NodeID: name, Kubeconfig: api.Kubeconfig(), Bundle: dir, EtcdPrefix: prefixOf(name), LeaseTTL: leaseTTL,
		}, 2, view.holds, view.campaigns)
		if err != nil {
			return err
		}
		all = append(all, nodes)
	}
	times := make([][]time.Duration, pairs)
	group, groupCtx := errgroup.WithContext(ctx)
	rounds := max(1, b.opts.kills/pairs)
	for i, nodes := range all {
		group.Go(func() error {
			for round := range rounds {
				took, err := killOnce(groupCtx, nodes, spread(i+round*pairs, pairs*rounds, keepAlivePause))
				if err != nil {
					return err
				}
				times[i] = append(times[i], took)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	want := bar{max: leaseTTL + time.Second, faster: map[string]float64{peerOrigin: 10, peerClientGo: 2}}
	for i, nodes := range all {
		b.report.measured(rowKill, want, times[i])
		if err := nodes.stop(); err != nil {
			return err
		}
	}
	return api.Stop()
}

// spread returns the i-th of n times, evenly spread within d. How long a lease still
// lasts depends on when its holder dies within a keep-alive interval.
func spread(i, n int, d time.Duration) time.Duration { return d * time.Duration(i) / time.Duration(n) }

// killOnce kills the leader after a delay.
func killOnce(ctx context.Context, nodes trio, delay time.Duration) (time.Duration, error) {
	pause(ctx, delay)
	leader, others := nodes.leader()
	begin, err := leader.signal(syscall.SIGKILL)
	if err != nil {
		return 0, err
	}
	next, led, err := others.first(ctx, "another to lead", view.leads)
	if err != nil {
		return 0, err
	}
	if _, err := next.await(ctx, "to have done its work", view.holds); err != nil {
		return 0, err
	}
	if err := leader.stop(); err != nil {
		return 0, err
	}
	if err := leader.start(ctx); err != nil {
		return 0, err
	}
	_, err = leader.await(ctx, "to wait for the leadership", view.campaigns)
	return led.Sub(begin), err
}

// benchNewer runs two sidecars of one release, and starts and stops a third of a
// newer release.
func benchNewer(ctx context.Context, b *bench) error {
	api, err := b.startAPI("newer")
	if err != nil {
		return err
	}
	var dirs []string
	for _, release := range []string{"1.0.0", "1.1.0"} {
		dir, err := b.writeBundle(bundleSpec{name: "newer", release: release, objects: few("newer", release)})
		if err != nil {
			return err
		}
		dirs = append(dirs, dir)
	}
	cfg := cluster.SidecarConfig{NodeID: "newer", Kubeconfig: api.Kubeconfig(), Bundle: dirs[0], EtcdPrefix: prefixOf("newer")}
	older, err := b.startTrio(ctx, cfg, 2)
	if err != nil {
		return err
	}
	cfg.NodeID, cfg.Bundle = "newer-newest", dirs[1]
	var joined, left, writes []time.Duration
	for range b.opts.n {
		write, err := b.bareWrite(ctx)
		if err != nil {
			return err
		}
		writes = append(writes, write)
		alive := b.firstPut(ctx, keysOf("newer").Presence(protocol.NodeID(cfg.NodeID)))
		newest, err := b.startNode(ctx, cfg)
		if err != nil {
			return err
		}
		begin, err := await(ctx, "the newest's presence", alive)
		if err != nil {
			return err
		}
		if _, err := newest.await(ctx, "to lead", view.leads); err != nil {
			return err
		}
		joined = append(joined, newest.latest().began().Sub(begin))
		took, err := stopNewest(ctx, newest, older)
		if err != nil {
			return err
		}
		left = append(left, took)
	}
	b.report.measured(rowNewer, bar{p50: 10 * time.Millisecond, p99: 250 * time.Millisecond}, joined)
	b.report.measured(rowBare, bar{}, writes)
	b.report.measured(rowNewest, bar{}, left)
	return errors.Join(older.stop(), api.Stop())
}

// bareWrite returns how long one write takes, with its fsync.
func (b *bench) bareWrite(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	_, err := b.etcd.Put(ctx, "/bench-bare", "x")
	return time.Since(begin), err
}

// stopNewest stops the newest node after its pass, and waits until an older one
// leads.
func stopNewest(ctx context.Context, newest *node, older trio) (time.Duration, error) {
	if _, err := newest.await(ctx, "to have made its pass", view.settled); err != nil {
		return 0, err
	}
	begin, err := newest.signal(syscall.SIGTERM)
	if err != nil {
		return 0, err
	}
	_, led, err := older.first(ctx, "an older one to lead", view.leads)
	if err != nil {
		return 0, err
	}
	return led.Sub(begin), newest.stop()
}

// firstPut returns a channel that gets the time at which a watch saw the first write
// below a prefix, from now on.
func (b *bench) firstPut(ctx context.Context, prefix string) <-chan time.Time {
	seen := make(chan time.Time, 1) // buffered: it gets one time
	ctx, cancel := context.WithCancel(ctx)
	watch := b.etcd.Watch(clientv3.WithRequireLeader(ctx), prefix,
		clientv3.WithPrefix(), clientv3.WithFilterDelete(), clientv3.WithCreatedNotify())
	<-watch // it is established
	go func() {
		defer cancel()
		for resp := range watch {
			if len(resp.Events) > 0 {
				seen <- time.Now()
				return
			}
		}
	}()
	return seen
}

// benchBlocker starts one release after the other. Each must wait for a node of the
// previous release.
func benchBlocker(ctx context.Context, b *bench) error {
	api, err := b.startAPI("blocker")
	if err != nil {
		return err
	}
	cfg := cluster.SidecarConfig{NodeID: "blocker", Kubeconfig: api.Kubeconfig(), EtcdPrefix: prefixOf("blocker")}
	var times []time.Duration
	var last *node
	for minor := range b.opts.n + 1 {
		release := fmt.Sprintf("1.%d.0", minor)
		cfg.Bundle, err = b.writeBundle(bundleSpec{
			name: "blocker", release: release, minAPIServer: release, objects: few("blocker", release),
		})
		if err != nil {
			return err
		}
		if last == nil {
			// The first release does not wait.
			if last, err = b.startNode(ctx, cfg); err != nil {
				return err
			}
			if _, err := last.await(ctx, "to have made its pass", view.settled); err != nil {
				return err
			}
			continue
		}
		if err := last.stop(); err != nil {
			return err
		}
		took, next, err := blockOnce(ctx, b, cfg, int64(minor-1))
		if err != nil {
			return err
		}
		times, last = append(times, took), next
	}
	b.report.measured(rowBlocker, bar{p99: 100 * time.Millisecond}, times)
	return errors.Join(last.stop(), api.Stop())
}

// blockOnce registers a node of the previous release, starts the sidecar, which must
// wait for that node, and removes the node.
func blockOnce(ctx context.Context, b *bench, cfg cluster.SidecarConfig, minor int64) (time.Duration, *node, error) {
	key := keysOf("blocker").Node("old")
	record := fleet.Encode(protocol.Node{
		ID: "old", Roles: protocol.Roles{Controller: true},
		Version: protocol.Version{Release: protocol.Release{Major: 1, Minor: minor}},
	})
	if _, err := b.etcd.Put(ctx, key, string(record)); err != nil {
		return 0, nil, err
	}
	n, err := b.startNode(ctx, cfg)
	if err != nil {
		return 0, nil, err
	}
	if _, err := n.await(ctx, "to wait for the blocker", func(v view) bool { return v.Election.Step.Kind == "Await" }); err != nil {
		return 0, nil, err
	}
	firstObject := b.firstPut(ctx, registryOf("blocker")+"/configmaps/default/blocker-")
	begin := time.Now()
	if _, err := b.etcd.Delete(ctx, key); err != nil {
		return 0, nil, err
	}
	at, err := await(ctx, "the first object", firstObject)
	if err != nil {
		return 0, nil, err
	}
	_, err = n.await(ctx, "to have made its pass", view.settled)
	return at.Sub(begin), n, err
}
