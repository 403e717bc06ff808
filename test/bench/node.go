package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// node is a sidecar and the observer of its status. It can be started again, as
// another process with the same configuration.
type node struct {
	*cluster.Sidecar
	*observer
	b   *bench
	cfg cluster.SidecarConfig
}

// startNode starts a sidecar and its observer.
func (b *bench) startNode(ctx context.Context, cfg cluster.SidecarConfig) (*node, error) {
	var err error
	if cfg.Listen, err = cluster.FreeAddr(); err != nil {
		return nil, err
	}
	n := &node{b: b, cfg: cfg}
	return n, n.start(ctx)
}

// start starts the observer first, so that it misses nothing.
func (n *node) start(ctx context.Context) error {
	n.observer = observe(ctx, "http://"+n.cfg.Listen)
	var err error
	n.Sidecar, err = n.b.cluster.StartSidecar(n.cfg)
	return err
}

// await waits until the sidecar's status satisfies ok, and returns when it was
// first seen.
func (n *node) await(ctx context.Context, what string, ok func(view) bool) (time.Time, error) {
	return await(ctx, n.cfg.NodeID+" "+what, n.when(ok))
}

// stop stops the sidecar and its observer.
func (n *node) stop() error {
	defer n.close()
	return n.Stop()
}

// signal sends a signal, and returns the time just before.
func (n *node) signal(sig syscall.Signal) (time.Time, error) {
	at := time.Now()
	return at, n.Signal(sig)
}

// trio is a few sidecars with the same keys. The first leads at the beginning.
type trio []*node

// startTrio starts n sidecars and waits until the first finished its pass, and the
// others wait for the leadership.
func (b *bench) startTrio(ctx context.Context, cfg cluster.SidecarConfig, count int) (trio, error) {
	return b.startGroup(ctx, cfg, count, view.settled, view.waits)
}

// startGroup starts n sidecars, one after another, and waits until the first leads, and the
// others wait for the leadership, as these conditions say.
func (b *bench) startGroup(ctx context.Context, cfg cluster.SidecarConfig, count int, leads, waits func(view) bool) (trio, error) {
	var out trio
	name := cfg.NodeID
	for i := range count {
		cfg.NodeID = fmt.Sprintf("%s-%c", name, 'a'+i)
		n, err := b.startNode(ctx, cfg)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
		state, what := waits, "to wait for the leadership"
		if i == 0 {
			state, what = leads, "to have made its pass"
		}
		if _, err := n.await(ctx, what, state); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (t trio) stop() error {
	for _, n := range t {
		if err := n.stop(); err != nil {
			return err
		}
	}
	return nil
}

// leader returns the node that leads, and the others.
func (t trio) leader() (*node, trio) {
	var leader *node
	var others trio
	for _, n := range t {
		if n.latest().leads() {
			leader = n
			continue
		}
		others = append(others, n)
	}
	return leader, others
}

// first waits until the status of a node satisfies ok, and returns which node was
// the first, and when.
func (t trio) first(ctx context.Context, what string, ok func(view) bool) (*node, time.Time, error) {
	type sighting struct {
		n  *node
		at time.Time
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := make(chan sighting, len(t)) // each sends once
	for _, n := range t {
		w := n.when(ok)
		go func() {
			select {
			case at := <-w:
				seen <- sighting{n, at}
			case <-ctx.Done():
			}
		}()
	}
	s, err := await(ctx, what, seen)
	return s.n, s.at, err
}

// prefixOf is the prefix of a case's keys.
func prefixOf(name string) string { return "/bench-" + name + "/" }

func keysOf(name string) keyspace.Keys { return keyspace.Under(prefixOf(name)) }
