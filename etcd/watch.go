package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// KV is a key as it stands in the store.
type KV struct {
	Key            string
	Value          []byte
	CreateRevision int64
	ModRevision    int64
	Version        int64 // how often it was written since it was created
}

// Listing is all keys under a prefix as they stood at one revision, sorted by
// key.
type Listing struct {
	At
	KVs []KV
}

// At is a place in the store's history. Revisions compare only as long as the
// store has not gone back, as after a restore from a backup.
type At struct {
	Rewinds  int // how often it had gone back
	Revision int64
}

// Before reports whether a is an earlier place than b.
func (a At) Before(b At) bool {
	return a.Rewinds < b.Rewinds || a.Rewinds == b.Rewinds && a.Revision < b.Revision
}

const (
	minRelistPause = 50 * time.Millisecond
	maxRelistPause = 3 * time.Second
)

// Follow reports all keys under prefix, once and then at each change, until
// ctx ends. It lists and watches; where the watch ends (compaction, a member
// without a leader, a store that went back), it lists anew, so that no change
// is missed for good. report runs on Follow's goroutine. The revision of a
// listing that came from the watch is that of the last change in it.
//
// A watch only wakes: what is decided must be decided from a linearizable read
// (DESIGN 4.3).
func (c *Client) Follow(ctx context.Context, prefix string, report func(Listing)) error {
	wait := minRelistPause
	for {
		began := time.Now()
		err := c.listAndWatch(ctx, prefix, report)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > maxRelistPause {
			wait = minRelistPause // the watch worked for a while
		}
		c.log.Debug("watch ended, listing anew", "prefix", prefix, "err", err)
		if !pause(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, maxRelistPause)
	}
}

// listAndWatch returns why the watch ended.
func (c *Client) listAndWatch(ctx context.Context, prefix string, report func(Listing)) error {
	rewinds, rewound := c.rewound.Load()
	resp, err := c.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	held := make(map[string]KV, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		held[string(kv.Key)] = NewKV(kv)
	}
	report(listing(At{rewinds, resp.Header.Revision}, held))

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := c.client.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithRev(resp.Header.Revision+1))
	for {
		select {
		case <-rewound:
			return errors.New("the store went back")
		case change, open := <-watch:
			if !open {
				return errors.New("watch closed")
			}
			if err := change.Err(); err != nil {
				return fmt.Errorf("watch %q: %w", prefix, err)
			}
			if len(change.Events) > 0 {
				report(listing(At{rewinds, apply(held, change.Events)}, held))
			}
		}
	}
}

// apply changes held by the events and returns the revision of the last one.
func apply(held map[string]KV, events []*clientv3.Event) int64 {
	var revision int64
	for _, ev := range events {
		revision = max(revision, ev.Kv.ModRevision)
		if ev.Type == clientv3.EventTypeDelete {
			delete(held, string(ev.Kv.Key))
			continue
		}
		held[string(ev.Kv.Key)] = NewKV(ev.Kv)
	}
	return revision
}

func listing(at At, held map[string]KV) Listing {
	kvs := slices.SortedFunc(maps.Values(held), func(a, b KV) int { return strings.Compare(a.Key, b.Key) })
	return Listing{At: at, KVs: kvs}
}

// NewKV takes over a key from the client library's form.
func NewKV(kv *mvccpb.KeyValue) KV {
	return KV{Key: string(kv.Key), Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version}
}

// NewListing takes over the answer to the i-th operation of a transaction, a
// read. Its revision is that of the transaction: all of it was true at once.
func NewListing(resp *clientv3.TxnResponse, i int) Listing {
	kvs := resp.Responses[i].GetResponseRange().Kvs
	out := Listing{At: At{Revision: resp.Header.Revision}, KVs: make([]KV, 0, len(kvs))}
	for _, kv := range kvs {
		out.KVs = append(out.KVs, NewKV(kv))
	}
	return out
}
