package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// node is a sidecar with an eye on it. It can be started again, as another
// process with the same configuration.
type node struct {
	*cluster.Sidecar
	*eye
	b   *bench
	cfg cluster.SidecarConfig
}

// startNode starts a sidecar of a prefix of its case.
func (b *bench) startNode(ctx context.Context, cfg cluster.SidecarConfig) (*node, error) {
	var err error
	if cfg.Listen, err = cluster.FreeAddr(); err != nil {
		return nil, err
	}
	n := &node{b: b, cfg: cfg}
	return n, n.start(ctx)
}

// start opens the eye first, so that nothing that the sidecar does is missed.
func (n *node) start(ctx context.Context) error {
	n.eye = openEye(ctx, "http://"+n.cfg.Listen)
	var err error
	n.Sidecar, err = n.b.cluster.StartSidecar(n.cfg)
	return err
}

// await returns when the sidecar was first seen to be as ok says.
func (n *node) await(ctx context.Context, what string, ok func(view) bool) (time.Time, error) {
	return await(ctx, n.cfg.NodeID+" "+what, n.when(ok))
}

// stop ends the sidecar and the eye on it.
func (n *node) stop() error {
	defer n.close()
	return n.Stop()
}

// signal returns the moment before the signal was sent.
func (n *node) signal(sig syscall.Signal) (time.Time, error) {
	at := time.Now()
	return at, n.Signal(sig)
}

// trio is sidecars of one prefix. The first leads at the beginning.
type trio []*node

// startTrio starts n sidecars: the first has made its pass, the others wait.
func (b *bench) startTrio(ctx context.Context, cfg cluster.SidecarConfig, n int) (trio, error) {
	var out trio
	name := cfg.NodeID
	for i := range n {
		cfg.NodeID = fmt.Sprintf("%s-%c", name, 'a'+i)
		node, err := b.startNode(ctx, cfg)
		if err != nil {
			return nil, err
		}
		out = append(out, node)
		state, what := view.waits, "to wait for its turn"
		if i == 0 {
			state, what = view.settled, "to have made its pass"
		}
		if _, err := node.await(ctx, what, state); err != nil {
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

// leader returns who leads, and the others.
func (t trio) leader() (*node, trio) {
	var leader *node
	var others trio
	for _, n := range t {
		if n.now().leads() {
			leader = n
			continue
		}
		others = append(others, n)
	}
	return leader, others
}

// first returns which of the nodes was seen to be so first, and when.
func (t trio) first(ctx context.Context, what string, ok func(view) bool) (*node, time.Time, error) {
	type sight struct {
		node *node
		at   time.Time
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := make(chan sight, len(t)) // each sends once
	for _, n := range t {
		w := n.when(ok)
		go func() {
			select {
			case at := <-w:
				seen <- sight{n, at}
			case <-ctx.Done():
			}
		}()
	}
	s, err := await(ctx, what, seen)
	return s.node, s.at, err
}

// prefixOf is the prefix of a case's keys.
func prefixOf(name string) string { return "/bench-" + name + "/" }

func keysOf(name string) keyspace.Keys { return keyspace.Under(prefixOf(name)) }
