package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// startGates starts three sidecars that follow the status and never write it,
// because a node of a newer release seems to be alive. So the case can write the
// status.
func (b *bench) startGates(ctx context.Context, name string) ([]*node, error) {
	keys := keysOf(name)
	newer := fleet.Encode(protocol.Node{
		ID: "newer", Roles: protocol.Roles{Controller: true},
		Version: protocol.Version{Release: protocol.Release{Major: 99}},
	})
	for key, value := range map[string]string{keys.Node("newer"): string(newer), keys.Presence("newer"): ""} {
		if _, err := b.etcd.Put(ctx, key, value); err != nil {
			return nil, err
		}
	}
	if _, err := b.putStatus(ctx, name, protocol.Release{}); err != nil {
		return nil, err
	}
	dir, err := b.writeBundle(bundleSpec{name: name, release: "1.0.0", objects: few(name, "one")})
	if err != nil {
		return nil, err
	}
	kubeconfig, err := b.unusedKubeconfig()
	if err != nil {
		return nil, err
	}
	var nodes []*node
	for _, id := range []string{"a", "b", "c"} {
		n, err := b.startNode(ctx, cluster.SidecarConfig{
			NodeID: name + "-" + id, Kubeconfig: kubeconfig, Bundle: dir, EtcdPrefix: prefixOf(name),
		})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
		if _, err := n.await(ctx, "to be ready", ready); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

func ready(v view) bool { return v.Ready.Ready }

// putStatus writes a status that admits releases from minimum on, and returns its
// revision.
func (b *bench) putStatus(ctx context.Context, name string, minimum protocol.Release) (int64, error) {
	value, err := status.Encode(protocol.Status{
		State: protocol.Done, Version: protocol.Version{Release: protocol.Release{Major: 99}}, MinCompatible: minimum,
	}, time.Now())
	if err != nil {
		return 0, err
	}
	resp, err := b.etcd.Put(ctx, keysOf(name).Status(), string(value))
	if err != nil {
		return 0, err
	}
	return resp.Header.Revision, nil
}

// benchGate writes statuses that admit no node and all nodes, alternately.
func benchGate(ctx context.Context, b *bench) error {
	nodes, err := b.startGates(ctx, "gate")
	if err != nil {
		return err
	}
	var times []time.Duration
	for i := range 2 * b.opts.n {
		minimum, want := protocol.Release{Major: 50}, http.StatusServiceUnavailable
		if i%2 == 1 {
			minimum, want = protocol.Release{}, http.StatusOK
		}
		took, err := b.changeOnce(ctx, nodes, minimum, want)
		if err != nil {
			return err
		}
		times = append(times, took)
	}
	b.report.measured(rowGate, bar{p99: 20 * time.Millisecond}, times)
	return stopAll(nodes)
}

// changeOnce writes a status, and returns how long after the acknowledged write the
// last node answered accordingly.
func (b *bench) changeOnce(ctx context.Context, nodes []*node, minimum protocol.Release, want int) (time.Duration, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	at := make([]time.Time, len(nodes))
	for i, n := range nodes {
		group.Go(func() (err error) {
			at[i], err = pollReadyz(groupCtx, n.URL(), want)
			return err
		})
	}
	_, err := b.putStatus(ctx, "gate", minimum)
	committed := time.Now()
	if err := errors.Join(err, group.Wait()); err != nil {
		return 0, err
	}
	var last time.Duration // 0: all nodes were faster than the acknowledgement
	for _, t := range at {
		last = max(last, t.Sub(committed))
	}
	return last, nil
}

// pollEvery is the interval of requests to /readyz: short enough for the bar, and
// long enough to leave the CPU to the sidecar.
const pollEvery = 500 * time.Microsecond

// pollReadyz requests /readyz until it answers with a code, and returns when.
func pollReadyz(ctx context.Context, url string, want int) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		code, err := getCode(ctx, url+"/readyz")
		if err != nil {
			return time.Time{}, err
		}
		if code == want {
			return time.Now(), nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("/readyz never answered %d: %w", want, ctx.Err())
		case <-tick.C:
		}
	}
}

// getCode reuses connections, as load balancers do and kubelet probes do not.
func getCode(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// benchRecord overwrites a node's record, as another sidecar with the same node ID
// would.
func benchRecord(ctx context.Context, b *bench) error {
	nodes, err := b.startGates(ctx, "record")
	if err != nil {
		return err
	}
	id := protocol.NodeID(nodes[0].cfg.NodeID)
	foreign := fleet.Encode(protocol.Node{
		ID: id, Roles: protocol.Roles{Controller: true}, BootID: "another",
		Version: protocol.Version{Release: protocol.Release{Minor: 9}},
	})
	var times []time.Duration
	for range 2 * b.opts.n {
		begin := time.Now()
		resp, err := b.etcd.Put(ctx, keysOf("record").Node(id), string(foreign))
		if err != nil {
			return err
		}
		again := func(v view) bool { return v.Ready.Ready && v.Node.RegisteredRevision > resp.Header.Revision }
		at, err := nodes[0].await(ctx, "to be ready again", again)
		if err != nil {
			return err
		}
		times = append(times, at.Sub(begin))
	}
	b.report.measured(rowRecord, bar{p99: 100 * time.Millisecond}, times)
	return stopAll(nodes)
}

func stopAll(nodes []*node) error { return trio(nodes).stop() }
