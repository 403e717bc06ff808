package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

func turnsCases() []benchCase {
	return []benchCase{
		{group: "turns", name: "turn", run: benchTurn},
		{group: "turns", name: "restarts", run: benchRestarts, extra: true, network: true, programs: []string{"haproxy"}},
	}
}

func turnsRows() []string {
	return []string{rowTurn, rowTurnWrite, rowTurnOut, rowTurnNext, rowTurnDone}
}

const (
	rowTurn      = "a node asks for a turn that no other node has, until it has it"
	rowTurnWrite = "just before, a bare write to etcd, which a turn has to wait for"
	rowTurnOut   = "the same turn, until its gate is closed"
	rowTurnNext  = "a node serves again after its work, until the next node has its turn"
	rowTurnDone  = "the work on a node is done, until the next node has its turn"
)

// turnsRest is the pause before a turn is asked for. A presence that is written in that moment, such
// as after the turn before, costs a second attempt.
const turnsRest = 100 * time.Millisecond

// benchTurn measures turns of three nodes whose work takes no time.
func benchTurn(ctx context.Context, b *bench) error {
	const name = "turn"
	api, err := b.startAPI(name)
	if err != nil {
		return err
	}
	dir, err := b.writeBundle(bundleSpec{name: name, release: "1.0.0", objects: few(name, "one")})
	if err != nil {
		return err
	}
	nodes, err := b.startTrio(ctx, cluster.SidecarConfig{
		NodeID: name, Kubeconfig: api.Kubeconfig(), Bundle: dir, EtcdPrefix: prefixOf(name), Args: []string{"--apiserver-readyz"},
	}, 3)
	if err != nil {
		return err
	}
	client, err := etcd.NewClient(etcd.Config{
		Endpoints: b.cluster.Etcd.Endpoints(), Prefix: prefixOf(name), RequestTimeout: patience, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	var granted, out, writes []time.Duration
	for i := range b.opts.n {
		write, err := b.bareWrite(ctx)
		if err != nil {
			return err
		}
		writes = append(writes, write)
		turn, left, err := takeTurn(ctx, client, nodes[i%len(nodes)])
		if err != nil {
			return err
		}
		granted, out = append(granted, turn), append(out, left)
	}
	b.report.measured(rowTurn, bar{p50: 20 * time.Millisecond}, granted)
	b.report.measured(rowTurnWrite, bar{}, writes)
	b.report.measured(rowTurnOut, bar{}, out)
	for range max(1, b.opts.n/5) {
		if err := b.turnsAtOnce(ctx, nodes); err != nil {
			return err
		}
	}
	return errors.Join(nodes.stop(), api.Stop())
}

// takeTurn takes a turn for a node, and gives it back. left is how long it took until the gate
// was closed.
func takeTurn(ctx context.Context, client *etcd.Client, n *node) (granted, left time.Duration, err error) {
	id := protocol.NodeID(n.cfg.NodeID)
	if err := awaitAllServe(ctx, client, id); err != nil {
		return 0, 0, err
	}
	pause(ctx, turnsRest)
	begin := time.Now()
	answer, err := fleet.AwaitTurn(ctx, client, fleet.TurnWait{
		Want:   protocol.Turn{Node: id, Since: begin, Until: begin.Add(time.Hour), By: "bench", Kind: protocol.TurnOfPeople},
		Voters: func() []protocol.Voter { return nil }, Told: func(nodeturns.Answer, protocol.Fleet) {},
	})
	if err != nil {
		return 0, 0, err
	}
	if granted = time.Since(begin); answer.Verdict != nodeturns.Granted {
		return 0, 0, fmt.Errorf("%s got no turn: %s", id, answer.Message)
	}
	at, err := n.await(ctx, "to be out of service", func(v view) bool { return !v.Ready.Ready })
	if err != nil {
		return 0, 0, err
	}
	_, err = fleet.ForceTurnEnd(ctx, client, id)
	return granted, at.Sub(begin), err
}

// awaitAllServe returns when nothing keeps a node from its turn.
func awaitAllServe(ctx context.Context, client *etcd.Client, id protocol.NodeID) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return cluster.Poll(ctx, func(ctx context.Context) error {
		f, err := fleet.List(ctx, client)
		if err != nil {
			return err
		}
		if answer := nodeturns.Judge(nodeturns.Facts{Fleet: f}, id); answer.Verdict != nodeturns.Granted {
			return errors.New(answer.Message)
		}
		return nil
	})
}

// turnsAtOnce types sidecar turn on all nodes at the same time.
func (b *bench) turnsAtOnce(ctx context.Context, nodes trio) error {
	for _, n := range nodes {
		if _, err := n.await(ctx, "to be ready", ready); err != nil {
			return err
		}
	}
	o := b.observeTurns(ctx, nodes[0].cfg.EtcdPrefix)
	defer o.close()
	group, groupCtx := errgroup.WithContext(ctx)
	for _, n := range nodes {
		group.Go(func() error { return b.turn(groupCtx, n.Sidecar, n.cfg.EtcdPrefix, "--drain=1ms", "--", "true") })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	served, done := o.gaps()
	if len(served) != len(nodes)-1 {
		return fmt.Errorf("%d turns followed another one, want %d", len(served), len(nodes)-1)
	}
	b.report.measured(rowTurnNext, bar{max: time.Second}, served)
	b.report.measured(rowTurnDone, bar{}, done)
	return nil
}

// turn types sidecar turn on a node.
func (b *bench) turn(ctx context.Context, s *cluster.Sidecar, prefix string, args ...string) error {
	line := append([]string{
		"turn", "--server=" + s.URL(), "--etcd-servers=" + b.cluster.Etcd.Endpoints()[0], "--etcd-prefix=" + prefix,
	}, args...)
	if out, err := exec.CommandContext(ctx, b.cluster.SidecarBinary(), line...).CombinedOutput(); err != nil {
		return fmt.Errorf("sidecar %s: %w: %s", strings.Join(line, " "), err, out)
	}
	return nil
}

// turnsObserver follows turns and presences in etcd.
type turnsObserver struct {
	cancel context.CancelFunc

	mu                    sync.Mutex // mu guards the fields below
	granted, done, served map[string]time.Time
}

func (b *bench) observeTurns(ctx context.Context, prefix string) *turnsObserver {
	ctx, cancel := context.WithCancel(ctx)
	o := &turnsObserver{cancel: cancel, granted: map[string]time.Time{}, done: map[string]time.Time{}, served: map[string]time.Time{}}
	events := b.etcd.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-events // the watch is there
	keys := keyspace.Under(prefix)
	go func() {
		for resp := range events { // until ctx ends
			at := time.Now()
			for _, e := range resp.Events {
				key := string(e.Kv.Key)
				if id, is := strings.CutPrefix(key, keys.TurnsHeld()); is {
					o.turn(id, e, at)
				} else if id, is := strings.CutPrefix(key, keys.Presences()); is {
					o.presence(id, e.Kv.Value, at)
				}
			}
		}
	}()
	return o
}

func (o *turnsObserver) close() { o.cancel() }

// turn records an event: a turn is written again when its work is done.
func (o *turnsObserver) turn(id string, e *clientv3.Event, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case e.IsCreate():
		o.granted[id] = at
	case e.IsModify():
		o.done[id] = at
	}
}

func (o *turnsObserver) presence(id string, value []byte, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var p lockstepv1.Presence
	if _, done := o.done[id]; !done || proto.Unmarshal(value, &p) != nil || !p.GetReady() || p.GetApiserverDown() {
		return
	}
	if _, before := o.served[id]; !before {
		o.served[id] = at
	}
}

// gaps returns how long before each turn but the first one the node before it served again, and
// had done its work.
func (o *turnsObserver) gaps() (served, done []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var order []string
	for id := range o.granted {
		order = append(order, id)
	}
	slices.SortFunc(order, func(a, b string) int { return o.granted[a].Compare(o.granted[b]) })
	for i := 1; i < len(order); i++ {
		at, before := o.granted[order[i]], order[i-1]
		if o.served[before].IsZero() || o.done[before].IsZero() {
			continue
		}
		served, done = append(served, at.Sub(o.served[before])), append(done, at.Sub(o.done[before]))
	}
	return served, done
}
