package soak

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/netns"
)

// Some nodes are like the pods of a Deployment (docs/protocol-nodes.md#ephemeral): whenever
// one is replaced, the new one has another ID. An administrator never removes their
// records, except one that nothing else may delete.

const (
	closing = 5 * time.Second // from the signal until the gate is closed
	// leaving is longer than a sidecar waits for its kube-apiserver, and then for etcd.
	leaving = 90 * time.Second
)

// identity is a node's ID with the settings that change with it.
type identity struct {
	id, kubeconfig string
	api            *etcdtest.Proxy // before the gateway; closed: its kube-apiserver has stopped
	number         int             // of a pod
}

// name returns the node's current ID.
func (n *node) name() string { return n.as.Load().id }

// identify gives a node its first ID or, if it is a pod, the next one.
func (w *world) identify(n *node) error {
	now := &identity{id: n.slot}
	if n.pod {
		if was := n.as.Load(); was != nil {
			now.number = was.number
		}
		now.number++
		now.id = fmt.Sprintf("%s-%d", n.slot, now.number)
	}
	host := "127.0.0.1"
	if n.machine != nil {
		host = netns.Hub.String()
	}
	var err error
	if now.api, err = etcdtest.StartProxyAt(host, n.gateway.addr()); err != nil {
		return err
	}
	now.kubeconfig = filepath.Join(w.dir, "node-"+now.id+".kubeconfig")
	n.as.Store(now)
	return w.cluster.WriteKubeconfig(now.kubeconfig, "https://"+now.api.Addr())
}

// renew gives a dead pod its next ID. The caller holds n.busy.
func (w *world) renew(ctx context.Context, n *node) {
	if !n.pod {
		return
	}
	was := n.as.Load()
	was.api.Close()
	w.addCount("pod replaced")
	w.mu.Lock()
	w.left[was.id] = true
	w.mu.Unlock()
	if err := w.identify(n); err != nil {
		w.fail(err)
	}
	w.removeStuck(ctx)
}

// leave stops a sidecar gracefully. A pod's sidecar gets its signal at the same time as its
// kube-apiserver, which stops when the gate is closed.
func (n *node) leave(s *cluster.Sidecar) error {
	if !n.pod {
		return s.Stop()
	}
	if err := s.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	err := cluster.Poll(ctx, func(ctx context.Context) error {
		if s.Readyz(ctx) == nil {
			return fmt.Errorf("%s stops, and its gate is open", s.NodeID)
		}
		return nil
	})
	n.as.Load().api.Close()
	limit := time.NewTimer(leaving)
	defer limit.Stop()
	select {
	case <-s.Done():
		return err
	case <-limit.C:
		return errors.Join(err, fmt.Errorf("%s still runs %s after its signal", s.NodeID, leaving), s.Kill())
	}
}

// removeStuck acts for people: it removes records of pods that do not exist
// any more, if the records are corrupt or without the controller role.
func (w *world) removeStuck(ctx context.Context) {
	w.mu.Lock()
	left := w.left
	w.left = map[string]bool{}
	w.mu.Unlock()
	for id := range left {
		if !w.isRemoved(ctx, id) {
			w.mu.Lock()
			w.left[id] = true
			w.mu.Unlock()
		}
	}
}

// isRemoved reports whether the record of a replaced pod is deleted.
func (w *world) isRemoved(ctx context.Context, id string) bool {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resp, err := w.etcd.Get(limited, w.rec.keys.Node(protocol.NodeID(id)))
	if err != nil || len(resp.Kvs) == 0 {
		return err == nil
	}
	if r := w.rec.decodeRecord(resp.Kvs[0], false); r.Corrupt || !r.Controller {
		w.rec.removes(id)
		if err := w.command(ctx, "node", "remove", id, "--confirm-stopped"); err != nil {
			w.logf("%v", err)
		}
	}
	return false
}

// onlyLiveRecords returns nil if all records belong to current nodes.
func (w *world) onlyLiveRecords(ctx context.Context) error {
	w.removeStuck(ctx)
	resp, err := w.etcd.Get(ctx, w.rec.keys.Nodes(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	live := map[string]bool{}
	for _, n := range w.nodes {
		live[n.name()] = true
	}
	for _, kv := range resp.Kvs {
		if id := string(w.rec.keys.NodeOf(string(kv.Key))); !live[id] {
			return fmt.Errorf("%s does not exist any more, and has a record", id)
		}
	}
	return nil
}
