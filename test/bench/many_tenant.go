package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/app"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// tenantNodes is the number of sidecars in a control plane.
const tenantNodes = 3

// tenant is a control plane whose sidecars run in this process, with the flags that
// docs/clusters.md#hosted names: nodes are replaced, and never return.
type tenant struct {
	name, etcd, kubeconfig string
	ttl                    time.Duration // of the leases
	bundles                func(release string) (dir string, err error)
	objects                *objectless

	upgrading sync.Mutex // held during an upgrade
	minor     int        // of the release
	started   int        // how many nodes were
	nodes     []*hosted
}

// hosted is a sidecar in this process.
type hosted struct {
	id    string
	app   *app.App
	stop  context.CancelFunc
	ended chan error // gets one error
}

func (t *tenant) prefix() string { return "/lockstep/" + t.name + "/" }

func (t *tenant) release() string { return fmt.Sprintf("1.%d.0", t.minor) }

// startNode starts a sidecar of the tenant's release. Its etcd client and its
// connection are its own, as in production.
func (t *tenant) startNode(ctx context.Context) (*hosted, error) {
	dir, err := t.bundles(t.release())
	if err != nil {
		return nil, err
	}
	t.started++
	n := &hosted{id: fmt.Sprintf("%s-%d", t.name, t.started), ended: make(chan error, 1)}
	d := lockstep.Defaults()
	n.app, err = app.New(app.Config{
		NodeID: protocol.NodeID(n.id), Etcd: etcd.Config{Endpoints: []string{t.etcd}, Prefix: t.prefix()},
		Kubeconfig: t.kubeconfig, Bundle: dir, Reconciler: t.objects,
		LeaseTTL: t.ttl, ResyncInterval: d.ResyncInterval, LeaderYieldAfter: d.LeaderYieldAfter,
		EtcdElectionTimeout: d.EtcdElectionTimeout, ApplyConcurrency: d.ApplyConcurrency,
		ExpireDeadNodes: 2 * time.Minute, Ephemeral: true,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	ctx, n.stop = context.WithCancel(ctx)
	go func() { n.ended <- n.app.Run(ctx) }()
	return n, nil
}

// awaitOpen waits until the gate is open.
func (n *hosted) awaitOpen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := n.app.WaitReady(ctx); err != nil {
		return fmt.Errorf("the gate of %s did not open: %w", n.id, err)
	}
	return nil
}

// start starts all nodes, and returns when their gates are open.
func (t *tenant) start(ctx context.Context) error {
	for range tenantNodes {
		n, err := t.startNode(ctx)
		if err != nil {
			return err
		}
		t.nodes = append(t.nodes, n)
	}
	for _, n := range t.nodes {
		if err := n.awaitOpen(ctx); err != nil {
			return err
		}
	}
	return nil
}

// upgraded holds the times of one upgrade.
type upgraded struct {
	all    time.Duration
	gates  []time.Duration // from the write of the status until each gate follows it
	starts []time.Duration // of the nodes that need no other status: until the gate is open
}

// upgrade replaces all nodes by nodes of the next release, one after another, as a
// Deployment does that allows one node more and none less. The objects must be of that
// release before such a node serves. So the gate of the first one opens with the status
// that its own sidecar writes.
func (t *tenant) upgrade(ctx context.Context) (upgraded, error) {
	t.upgrading.Lock()
	defer t.upgrading.Unlock()
	began := time.Now()
	t.minor++
	gates, err := t.replaceFirst(ctx)
	if err != nil {
		return upgraded{}, err
	}
	out := upgraded{gates: gates}
	for range tenantNodes - 1 {
		at := time.Now()
		n, err := t.startNode(ctx)
		if err != nil {
			return upgraded{}, err
		}
		if err := n.awaitOpen(ctx); err != nil {
			return upgraded{}, err
		}
		out.starts = append(out.starts, time.Since(at))
		if err := t.replaceOldest(n); err != nil {
			return upgraded{}, err
		}
	}
	out.all = time.Since(began)
	return out, nil
}

// replaceOldest stops the oldest node, which n replaces.
func (t *tenant) replaceOldest(n *hosted) error {
	oldest := t.nodes[0]
	t.nodes = append(t.nodes[1:], n)
	oldest.stop()
	return <-oldest.ended
}

// replaceFirst replaces a node by the first one of a release, and returns how long
// after the write of its status each gate followed it.
func (t *tenant) replaceFirst(ctx context.Context) ([]time.Duration, error) {
	first, err := t.startNode(ctx)
	if err != nil {
		return nil, err
	}
	var gates []*observer
	var seen []<-chan time.Time
	for _, n := range append([]*hosted{first}, t.nodes...) {
		o := observeHandler(ctx, n.app.Handler())
		defer o.close()
		gates, seen = append(gates, o), append(seen, o.when(t.followsRelease))
	}
	var out []time.Duration
	for _, c := range seen {
		at, err := await(ctx, t.name+" to follow the status", c)
		if err != nil {
			for _, o := range gates {
				err = fmt.Errorf("%w; %+v", err, o.latest())
			}
			return nil, err
		}
		out = append(out, time.Duration(at.UnixNano()))
	}
	written, err := t.written(ctx)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i] -= time.Duration(written.UnixNano())
	}
	return out, t.replaceOldest(first)
}

// followsRelease reports whether an open gate follows the status of the tenant's
// release: its message names it.
func (t *tenant) followsRelease(v view) bool {
	return v.Ready.Ready && strings.Contains(v.Ready.Message, ", release "+t.release()+",")
}

// written returns when the leader wrote the status: the time just before it sent it.
func (t *tenant) written(ctx context.Context) (at time.Time, err error) {
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{t.etcd}, Prefix: t.prefix()})
	if err != nil {
		return time.Time{}, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	now, err := status.NewStore(client).Get(ctx)
	if err == nil && now.View.Status.Version.Release.String() != t.release() {
		err = fmt.Errorf("%s: the status is of %s, not of %s", t.name, now.View.Status.Version, t.release())
	}
	return now.UpdatedAt, err
}

// observeHandler returns the observer of a sidecar in this process.
func observeHandler(ctx context.Context, api http.Handler) *observer {
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{cancel: cancel}
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/status?watch", nil)
	if err != nil {
		panic(fmt.Sprintf("the request for a status: %v", err))
	}
	go func() {
		api.ServeHTTP(streamWriter{out, http.Header{}}, req)
		_ = out.Close() // never returns an error
	}()
	go o.readAll(in)
	return o
}

// streamWriter is the answer to a request that was made in this process.
type streamWriter struct {
	*io.PipeWriter

	header http.Header
}

func (w streamWriter) Header() http.Header { return w.header }

func (w streamWriter) WriteHeader(int) {}

// FlushError and SetWriteDeadline are called by http.ResponseController.
func (w streamWriter) FlushError() error { return nil }

func (w streamWriter) SetWriteDeadline(time.Time) error { return nil }
