package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// KV is a key in the store, with its value.
type KV struct {
	Key            string
	Value          []byte
	CreateRevision int64
	ModRevision    int64
	Version        int64 // how often it was written since it was created
}

// Listing is all keys under a prefix at one revision, sorted by key. Successive listings share
// the unchanged keys, so a caller must not change a key.
type Listing struct {
	At
	KVs []*KV
}

// Find returns a key; the zero KV: the listing does not contain it. A listing of a key also contains keys that only begin
// with it.
func (l Listing) Find(key string) KV {
	i, found := slices.BinarySearchFunc(l.KVs, key, byKey)
	if !found {
		return KV{}
	}
	return *l.KVs[i]
}

func byKey(kv *KV, key string) int { return strings.Compare(kv.Key, key) }

// At is a point in the store's history. Two revisions compare only if the store did
// not go back between them, as it does after a restore from a backup.
type At struct {
	Rewinds  int // how often it went back before
	Revision int64
}

// Before reports whether a is earlier than b.
func (a At) Before(b At) bool {
	return a.Rewinds < b.Rewinds || a.Rewinds == b.Rewinds && a.Revision < b.Revision
}

const (
	minRelistPause = 50 * time.Millisecond
	maxRelistPause = 3 * time.Second
)

// Follow reports all keys under prefix, once and then at each change, until ctx ends. It lists,
// then watches. When the watch ends (a compaction, a member without a leader, a store that went
// back) or lost an event (Check), it lists again, so it misses no change for good. report runs
// on Follow's goroutine. The revision of a listing from the watch is the revision of the last
// change in it (docs/upstream.md#etcd-watch-header).
//
// report must not change the listing. Follow may lag behind etcd. Decide from a linearizable read
// (docs/protocol.md#snapshots).
func (c *Client) Follow(ctx context.Context, prefix string, report func(Listing)) error {
	f := &follower{client: c, prefix: prefix, report: report, readings: make(chan reading, 1)}
	c.add(f)
	defer c.remove(f)
	pauses := backoff.Backoff{First: minRelistPause, Max: maxRelistPause, Jitter: backoff.Apart}
	for {
		began := time.Now()
		err := f.listAndWatch(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > maxRelistPause {
			pauses.Reset() // the watch worked for a while
		}
		c.log.Debug("watch ended, listing again", "prefix", prefix, "err", err)
		if !pauses.Sleep(ctx) {
			return ctx.Err()
		}
	}
}

// follower is one call of Follow. Only its goroutine uses view.
type follower struct {
	client   *Client
	prefix   string
	report   func(Listing)
	view     view
	size     atomic.Int64 // of view.kvs
	readings chan reading // from Check; size 1: the newest is enough

	mu     sync.Mutex    // mu guards writes
	writes map[string]At // by this client, that the watch has not reported yet
}

// listAndWatch returns why the watch ended.
func (f *follower) listAndWatch(ctx context.Context) error {
	rewinds, rewound := f.client.rewound.Load()
	if err := f.list(ctx, rewinds); err != nil {
		return err
	}
	l, moved := f.client.movingLink() // after the listing, which may have moved to another server
	opened, cancel := f.open(ctx, l)
	defer cancel()
	var watch clientv3.WatchChan // nil until the server answered
	var unseen missed
	for {
		select {
		case watch = <-opened:
			opened = nil
		case <-rewound:
			return errWentBack
		case <-moved:
			return errMoved
		case r := <-f.readings:
			if err := f.compare(r, &unseen); err != nil {
				return err
			}
		case <-unseen.due:
			if err := f.settle(&unseen); err != nil {
				return err
			}
		case change, open := <-watch:
			if !open {
				return errors.New("watch closed")
			}
			if err := f.receive(ctx, l, change, rewinds); err != nil {
				return err
			}
		}
	}
}

// open opens a watch of the changes from now on. One that begins at an older revision reports nothing
// for up to 100 ms (docs/upstream.md#etcd-watch-behind). The library waits there for the server, without
// a limit (docs/upstream.md#etcd-watch-opens), so the caller must not. cancel ends the watch.
func (f *follower) open(ctx context.Context, l *link) (opened <-chan clientv3.WatchChan, cancel func()) {
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	watch := make(chan clientv3.WatchChan, 1)
	var opening sync.WaitGroup
	opening.Go(func() { watch <- l.client.Watch(ctx, f.prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify()) })
	return watch, func() { stop(); opening.Wait() }
}

// receive applies the events of a watch. It leaves a server that cannot serve watches. When the watch
// begins, at a revision after the listing, it lists again: the watch does not report what was written
// between both. It drops events that a listing contains already.
func (f *follower) receive(ctx context.Context, l *link, change clientv3.WatchResponse, rewinds int) error {
	if err := change.Err(); err != nil {
		if refused(err) {
			f.client.leave(l, err)
		}
		return fmt.Errorf("watch %q: %w", f.prefix, err)
	}
	if change.Created && change.Header.Revision > f.view.listed {
		return f.list(ctx, rewinds)
	}
	events := slices.DeleteFunc(change.Events, func(ev *clientv3.Event) bool { return ev.Kv.ModRevision <= f.view.listed })
	if len(events) > 0 {
		f.view.apply(events)
		f.reportView()
	}
	return nil
}

// list replaces the view, and reports it. It reports nothing if it finds that the store went
// back: the listing must not count as one of the older store.
func (f *follower) list(ctx context.Context, rewinds int) error {
	resp, err := f.client.Get(ctx, f.prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	now := newView(At{rewinds, resp.Header.Revision}, resp.Kvs)
	if f.contradicts(reading{view: now}) {
		f.client.wentBack(rewinds, resp.Header.Revision, "its keys below "+f.prefix+" are not of the same history")
	}
	if f.client.rewound.Get() != rewinds {
		return errWentBack
	}
	f.view = now
	f.reportView()
	return nil
}

func (f *follower) reportView() {
	f.size.Store(int64(len(f.view.kvs)))
	f.report(Listing{At: f.view.At, KVs: f.view.sorted})
}

// apply applies the events. It leaves the keys that were reported before as they were:
// others may still use them.
func (v *view) apply(events []*clientv3.Event) {
	v.sorted = slices.Clone(v.sorted)
	for _, ev := range events {
		v.Revision = max(v.Revision, ev.Kv.ModRevision)
		kv := new(NewKV(ev.Kv))
		i, found := slices.BinarySearchFunc(v.sorted, kv.Key, byKey)
		switch {
		case ev.Type == clientv3.EventTypeDelete:
			delete(v.kvs, kv.Key)
			if found {
				v.sorted = slices.Delete(v.sorted, i, i+1)
			}
			continue
		case found:
			v.sorted[i] = kv
		default:
			v.sorted = slices.Insert(v.sorted, i, kv)
		}
		v.kvs[kv.Key] = kv
	}
}

// NewKV converts a key from the client library's form.
func NewKV(kv *mvccpb.KeyValue) KV {
	return KV{Key: string(kv.Key), Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version}
}

// newKVs converts keys, with one allocation for all of them.
func newKVs(from []*mvccpb.KeyValue) []*KV {
	all, out := make([]KV, len(from)), make([]*KV, len(from))
	for i, kv := range from {
		all[i] = NewKV(kv)
		out[i] = &all[i]
	}
	return out
}

// NewListing converts the answer to the i-th operation of a transaction, which is a read. Its
// revision is the transaction's.
func NewListing(resp *clientv3.TxnResponse, i int) Listing {
	kvs := resp.Responses[i].GetResponseRange().Kvs
	return Listing{At: At{Revision: resp.Header.Revision}, KVs: newKVs(kvs)}
}

// ListingOf converts the answer to a read.
func ListingOf(resp *clientv3.GetResponse) Listing {
	return Listing{At: At{Revision: resp.Header.Revision}, KVs: newKVs(resp.Kvs)}
}
