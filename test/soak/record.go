package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/soak/judge"
)

const (
	prefix    = "/lockstep/"
	parentRef = "ConfigMap kube-system/lockstep"
	// editAnnotation marks an edit by the soak, as opposed to a write by a sidecar:
	// each edit writes another value.
	editAnnotation = "soak.lockstep.dev/edit"
	garbage        = "soak garbage "

	readPause   = 50 * time.Millisecond
	readTimeout = 700 * time.Millisecond
	// watchPatience is how long a watch may lag behind the reads before the
	// recorder gives it up: its member may be paused.
	watchPatience = 1500 * time.Millisecond
)

// recorder keeps everything that happened, from etcd's own log of changes.
type recorder struct {
	began   time.Time
	clients []*clientv3.Client // one for each member, so that a paused member does not hold up the others
	keys    keyspace.Keys

	// watching is held while an age is recorded: a new one begins when it is not.
	watching sync.RWMutex

	mu       sync.Mutex         // mu guards the fields below
	stop     context.CancelFunc // of the watch
	past     []judge.History    // of etcd's ages before the current one, which ended with a restore
	history  judge.History
	ended    bool  // the history ended, and the next one did not begin: answers of sidecars do not count
	next     int64 // the revision at which the watch resumes
	read     int64 // the highest revision that was read
	objects  map[string]seen
	deleting map[string]bool // UIDs of objects that the soak deletes
	removing map[string]bool // IDs of nodes whose records the soak removes
	cleaning time.Duration   // until when kube-apiservers may delete objects of a kind whose CRD the soak deleted
	lost     int             // deletions of the status by the soak that were not received yet
	bare     bool            // the set's parent was deleted, and the inventory with it
	changed  chan struct{}   // closed at the next event
}

// seen is the recorder's copy of an API object. wanted is the part of a CRD that clients
// write, without the reports of kube-apiservers; empty: it is no CRD.
type seen struct {
	ref, uid, edit, wanted string
}

func newRecorder(endpoints []string, began time.Time) (*recorder, error) {
	r := &recorder{
		began: began, keys: keyspace.Under(prefix), next: 1,
		objects: map[string]seen{}, deleting: map[string]bool{}, removing: map[string]bool{}, changed: make(chan struct{}),
	}
	for _, endpoint := range endpoints {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
		if err != nil {
			return nil, fmt.Errorf("record: %w", err)
		}
		r.clients = append(r.clients, client)
	}
	return r, nil
}

func (r *recorder) now() time.Duration { return time.Since(r.began) }

// run records until ctx ends.
func (r *recorder) run(ctx context.Context) error {
	var reading sync.WaitGroup
	reading.Go(func() { r.readAll(ctx) })
	defer reading.Wait()
	for round := 0; ctx.Err() == nil; round++ {
		r.watching.RLock()
		err := r.watch(ctx, r.clients[round%len(r.clients)])
		r.watching.RUnlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// watch follows etcd through one member until that member stops answering. A
// revision that was compacted before it was received would be a gap. That is an
// error, because only the soak compacts, and only revisions that were received.
func (r *recorder) watch(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	from := r.next
	r.stop = cancel
	r.mu.Unlock()
	var patient sync.WaitGroup
	defer func() { cancel(); patient.Wait() }()
	patient.Go(func() { r.giveUp(ctx, cancel) })
	// It blocks until the member answers: one that was removed does not, for minutes.
	events := client.Watch(clientv3.WithRequireLeader(ctx), "", clientv3.WithPrefix(), clientv3.WithRev(from))
	for {
		select {
		case resp, open := <-events:
			if resp.CompactRevision != 0 {
				return fmt.Errorf("record: revisions up to %d were compacted before they were received", resp.CompactRevision)
			}
			if !open || resp.Err() != nil {
				pause(ctx, readPause)
				return nil
			}
			r.record(resp.Events)
		case <-ctx.Done():
			return nil
		}
	}
}

// giveUp ends a watch that receives nothing for watchPatience, although there is something to receive.
func (r *recorder) giveUp(ctx context.Context, end context.CancelFunc) {
	at, since := int64(0), time.Time{}
	for pause(ctx, watchPatience/3) {
		switch next, behind := r.progress(); {
		case !behind || next != at:
			at, since = next, time.Now()
		case time.Since(since) > watchPatience:
			end()
			return
		}
	}
}

// progress returns the revision that the watch receives next, and whether it is read already.
func (r *recorder) progress() (next int64, behind bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next, r.read >= r.next
}

// readAll reads etcd's revision again and again, for the clock of the judge.
func (r *recorder) readAll(ctx context.Context) {
	for round := 0; pause(ctx, readPause); {
		if !r.readOnce(ctx, r.clients[round%len(r.clients)]) {
			round++
		}
	}
}

func (r *recorder) readOnce(ctx context.Context, client *clientv3.Client) bool {
	r.watching.RLock()
	defer r.watching.RUnlock()
	sent := r.now()
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	resp, err := client.Get(limited, "/soak/clock")
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Readings = append(r.history.Readings, judge.Reading{
		Sent: sent, Got: r.now(), Revision: resp.Header.Revision, Member: resp.Header.MemberId, Cluster: resp.Header.ClusterId,
	})
	r.read = max(r.read, resp.Header.Revision)
	return true
}

// record adds the events that the judge needs.
func (r *recorder) record(events []*clientv3.Event) {
	at := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ev := range events {
		e, ok := r.decode(ev)
		if ok {
			e.Revision, e.Seen = ev.Kv.ModRevision, at
			r.history.Events = append(r.history.Events, e)
		}
		r.next = max(r.next, ev.Kv.ModRevision+1)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// decode turns a change into an event for the judge. The caller holds mu.
func (r *recorder) decode(ev *clientv3.Event) (judge.Event, bool) {
	key, gone := string(ev.Kv.Key), ev.Type == clientv3.EventTypeDelete
	foreign := bytes.HasPrefix(ev.Kv.Value, []byte(garbage))
	switch {
	case key == r.keys.Status():
		if gone && r.lost > 0 {
			r.lost--
			foreign = true
		}
		view := decodeStatus(ev.Kv, gone)
		return judge.Event{Foreign: foreign, Status: &view}, true
	case key == r.keys.Rollback():
		return judge.Event{Rollback: decodeRollback(ev.Kv, gone)}, true
	case strings.HasPrefix(key, r.keys.TurnsHeld()):
		return judge.Event{Turn: &judge.Turn{Node: strings.TrimPrefix(key, r.keys.TurnsHeld()), Gone: gone}}, true
	case strings.HasPrefix(key, r.keys.Nodes()):
		record := r.decodeRecord(ev.Kv, gone)
		return judge.Event{Foreign: foreign || gone && r.removing[record.Node], Record: record}, true
	case strings.HasPrefix(key, r.keys.Presences()):
		return judge.Event{Foreign: foreign, Presence: &judge.Presence{Node: strings.TrimPrefix(key, r.keys.Presences()), Gone: gone}}, true
	case strings.HasPrefix(key, r.keys.Leaders()):
		return judge.Event{Foreign: foreign, Candidate: &judge.Candidate{Key: key, Node: string(ev.Kv.Value), Gone: gone}}, true
	case strings.HasPrefix(key, writesBelow):
		return judge.Event{Foreign: true, Write: &key}, true
	case strings.HasPrefix(key, "/registry/"):
		return r.decodeObject(ev.Kv, gone)
	}
	return judge.Event{}, false
}

func decodeStatus(kv *mvccpb.KeyValue, gone bool) protocol.StatusView {
	if gone {
		return status.Decode(nil)
	}
	out := etcd.NewKV(kv)
	return status.Decode(&out)
}

func (r *recorder) decodeRecord(kv *mvccpb.KeyValue, gone bool) *judge.Record {
	out := &judge.Record{Node: string(r.keys.NodeOf(string(kv.Key))), Gone: gone}
	if gone {
		return out
	}
	one := fleet.Decode(r.keys, etcd.Listing{KVs: []*etcd.KV{new(etcd.NewKV(kv))}}, etcd.Listing{}).Records[0]
	out.Corrupt = one.Problem != ""
	out.Release, out.M = one.Node.Version.Release, one.Node.MinReconciler
	out.Controller, out.Serves, out.ExpireAfter = one.Node.Roles.Controller, one.Node.Serves, one.Node.ExpireAfter
	out.Member, out.Ephemeral = one.Node.Roles.Consensus, one.Node.Ephemeral
	return out
}

// decodeObject decodes an object. It finds a deleted one by its key.
func (r *recorder) decodeObject(kv *mvccpb.KeyValue, gone bool) (judge.Event, bool) {
	key := string(kv.Key)
	was, known := r.objects[key]
	if gone {
		delete(r.objects, key)
		foreign := r.deleting[was.uid]
		switch {
		case was.ref == parentRef:
			r.bare = true
			return judge.Event{Foreign: foreign, Mark: &judge.Mark{Gone: true}}, known
		case was.wanted != "" && foreign:
			r.cleaning = r.now() + landing
		case strings.HasPrefix(was.ref, "Widget "):
			foreign = foreign || r.now() < r.cleaning
		}
		return judge.Event{Foreign: foreign, Object: &judge.Object{Ref: was.ref, UID: was.uid, Gone: true}}, known
	}
	var live struct {
		Kind     string
		Data     map[string]string
		Metadata struct {
			Name, Namespace, UID string
			Annotations          map[string]string
			DeletionTimestamp    string
		}
	}
	if !bytes.HasPrefix(kv.Value, []byte("{")) || json.Unmarshal(kv.Value, &live) != nil {
		return judge.Event{}, false
	}
	m := live.Metadata
	now := seen{ref: ref(live.Kind, m.Namespace, m.Name), uid: m.UID, edit: m.Annotations[editAnnotation]}
	out := &judge.Object{Ref: now.ref, UID: m.UID}
	switch k, found := findKept(now.ref); {
	case found:
		out.Form = k.formOf(decodeWhole(kv.Value))
		out.Epoch, out.Release = stampOf(m.Annotations)
		if k.kind == "CustomResourceDefinition" {
			now.wanted = wanted(kv.Value)
		}
	case now.ref == parentRef:
		r.objects[key] = now
		return judge.Event{Foreign: now.edit != was.edit && now.uid == was.uid, Mark: decodeMark(live.Data["mark.json"])}, true
	case m.Namespace != cluster.TenantNamespace || live.Kind != "ConfigMap":
		return judge.Event{}, false
	}
	r.objects[key] = now
	if m.DeletionTimestamp != "" && now.wanted != "" && r.deleting[now.uid] {
		r.cleaning = 1<<63 - 1 // until it is deleted
	}
	if now.wanted != "" && now == was {
		return judge.Event{}, false // a kube-apiserver wrote the CRD's conditions
	}
	foreign := now.edit != was.edit && (now.uid == was.uid || now.edit != "") || m.DeletionTimestamp != "" && r.deleting[now.uid]
	return judge.Event{Foreign: foreign, Object: out}, true
}

// addProbe adds an answer of a sidecar.
func (r *recorder) addProbe(p judge.Probe) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended && p.Sent >= r.history.Settled {
		r.history.Probes = append(r.history.Probes, p)
	}
}

// deletes records that the soak is about to delete an object.
func (r *recorder) deletes(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deleting[uid] = true
}

// removes records that the soak is about to remove the record of a node.
func (r *recorder) removes(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removing[id] = true
}

// deletesStatus records that the soak is about to delete the status.
func (r *recorder) deletesStatus() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost++
}

// lostInventory reports whether the set's parent was ever deleted.
func (r *recorder) lostInventory() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bare
}

// seenUpTo is the revision up to which everything was received. The soak may
// compact up to it.
func (r *recorder) seenUpTo() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next - 1
}

// historySoFar returns a copy of the history of the current age.
func (r *recorder) historySoFar() judge.History {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.history
	out.Events = slices.Clip(out.Events)
	return out
}
