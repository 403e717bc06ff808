package e2e_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	podLease = 3 * time.Second
	// podSlack is the time that a machine under load may take for a step that etcd or a leader takes at once.
	podSlack = 20 * time.Second
)

// podHistory watches all keys of a control plane of pods from outside, while they come and
// go. It checks each revision when it happens, and each moment between two revisions.
type podHistory struct {
	t       *testing.T
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex // mu guards the fields below
	kvs      map[string]etcd.KV
	deleted  map[string]int64 // the revision at which a key was deleted last
	revision int64            // all until this one was seen
	leader   string           // the key of the node that leads
	// When something was seen: a pod ended, a presence was deleted, a node became the leader.
	ended, absent map[string]time.Time
	led           time.Time
	reported      map[string]bool // pods, so that each is reported once
}

func observePods(t *testing.T, client *clientv3.Client) *podHistory {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	h := &podHistory{
		t: t, stop: stop, kvs: map[string]etcd.KV{}, deleted: map[string]int64{},
		ended: map[string]time.Time{}, absent: map[string]time.Time{}, reported: map[string]bool{},
	}
	watch := client.Watch(ctx, "/lockstep/", clientv3.WithPrefix(), clientv3.WithRev(1))
	h.running.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case resp := <-watch:
				if err := resp.Err(); err != nil && ctx.Err() == nil {
					t.Errorf("watch the pods: %v", err)
					return
				}
				h.receive(resp)
			case <-tick.C:
				h.checkRecords()
			}
		}
	})
	t.Cleanup(func() { stop(); h.running.Wait() })
	return h
}

// ends notes that a pod ended: its record must be deleted.
func (h *podHistory) ends(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended[id] = time.Now()
}

// returns notes that a pod may own a record.
func (h *podHistory) returns(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ended, id)
}

// close ends the history when all until a revision was seen, and returns the revisions at
// which keys were deleted.
func (h *podHistory) close(revision int64) map[string]int64 {
	h.t.Helper()
	cluster.Await(h.t, "the watch to arrive at the last revision", func(context.Context) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.revision < revision {
			return context.DeadlineExceeded
		}
		return nil
	})
	h.stop()
	h.running.Wait()
	return h.deleted
}

// receive checks each revision of an answer.
func (h *podHistory) receive(resp clientv3.WatchResponse) {
	h.mu.Lock()
	for i, ev := range resp.Events {
		at, key := ev.Kv.ModRevision, string(ev.Kv.Key)
		id := string(ephemeralKeys.NodeOf(key))
		if delete(h.kvs, key); ev.IsCreate() || ev.IsModify() {
			h.kvs[key] = etcd.NewKV(ev.Kv)
			if strings.HasPrefix(key, ephemeralKeys.Presences()) {
				delete(h.absent, id)
			}
		} else {
			h.deleted[key] = at
			if strings.HasPrefix(key, ephemeralKeys.Presences()) {
				h.absent[id] = time.Now()
			}
		}
		if i == len(resp.Events)-1 || resp.Events[i+1].Kv.ModRevision != at {
			h.revision = at
			h.noteLeader()
			h.checkGates(at)
		}
	}
	h.mu.Unlock()
	h.checkRecords()
}

// noteLeader needs mu. The candidate with the oldest key leads.
func (h *podHistory) noteLeader() {
	leader := ""
	for key, kv := range h.kvs {
		if strings.HasPrefix(key, ephemeralKeys.Leaders()) && (leader == "" || kv.CreateRevision < h.kvs[leader].CreateRevision) {
			leader = key
		}
	}
	if leader != h.leader {
		h.leader, h.led = leader, time.Now()
	}
}

// checkRecords checks that each record belongs to a live pod, or to one that died within D,
// as the current leader counts it.
func (h *podHistory) checkRecords() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for key := range h.kvs {
		if !strings.HasPrefix(key, ephemeralKeys.Nodes()) {
			continue
		}
		id := string(ephemeralKeys.NodeOf(key))
		ended, has := h.ended[id]
		if !has || h.reported[id] {
			continue
		}
		since, limit, what := ended, podLease, "presence"
		if gone, absent := h.absent[id]; absent {
			since, limit, what = gone, expireAfter, "record"
			if h.led.After(since) {
				since = h.led // each leader counts from the beginning
			}
		}
		if age := now.Sub(since); age > limit+podSlack {
			h.reported[id] = true
			h.t.Errorf("%s ended %s ago, and its %s is still in etcd %s after it could be deleted", id, now.Sub(ended), what, age-limit)
		}
	}
}

// checkGates needs mu. It checks one revision: each node whose presence reports an open gate
// is registered, and the status admits it.
func (h *podHistory) checkGates(at int64) {
	var nodes, presences etcd.Listing
	view := status.Decode(nil)
	for _, key := range slices.Sorted(maps.Keys(h.kvs)) {
		kv := h.kvs[key]
		switch {
		case strings.HasPrefix(key, ephemeralKeys.Nodes()):
			nodes.KVs = append(nodes.KVs, &kv)
		case strings.HasPrefix(key, ephemeralKeys.Presences()):
			presences.KVs = append(presences.KVs, &kv)
		case key == ephemeralKeys.Status():
			view = status.Decode(&kv)
		}
	}
	for _, kv := range presences.KVs { // a record that is missing becomes one that is corrupt
		id := ephemeralKeys.NodeOf(kv.Key)
		if _, found := h.kvs[ephemeralKeys.Node(id)]; !found {
			nodes.KVs = append(nodes.KVs, &etcd.KV{Key: ephemeralKeys.Node(id)})
		}
	}
	slices.SortFunc(nodes.KVs, func(a, b *etcd.KV) int { return strings.Compare(a.Key, b.Key) })
	for _, r := range fleet.Decode(ephemeralKeys, nodes, presences).Records {
		switch admits, reason := protocol.Admits(view.Status, r.Node); {
		case !r.Presence.Ready:
		case r.Problem != "":
			h.t.Errorf("revision %d: the gate of %s is open, and it has no record", at, r.ID)
		case !admits:
			h.t.Errorf("revision %d: the gate of %s is open, and the status does not admit it (%s)", at, r.ID, reason)
		}
	}
}
