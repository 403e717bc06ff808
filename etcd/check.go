package etcd

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// This file compares the keys that Follow knows from its watches with the store
// (docs/protocol-nodes.md#watches). A watch may lose an event. After a restore, keys may differ from
// the ones that a watch reported, although the store's revision is higher: the watch goes on,
// and reports no event for them.

const (
	// missedTime is how long a change that a linearizable read showed may be missing from the
	// watch, until the event counts as lost.
	missedTime = time.Second
	// maxValues is how many keys of one Follow are compared with their values.
	// Of more, only the revisions are read.
	maxValues = 256
)

var (
	errWentBack  = errors.New("the store went back")
	errMoved     = errors.New("another etcd server is used now")
	errEventLost = errors.New("the watch did not report what etcd has")
)

// KeepChecking calls Check until ctx ends, so that no two checks are further apart
// than every. Errors are in Contact.
func (c *Client) KeepChecking(ctx context.Context, every time.Duration) error {
	for {
		c.mu.Lock()
		wait := time.Until(c.checked.Add(every))
		c.mu.Unlock()
		switch {
		case wait <= 0:
			_ = c.Check(ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		case !backoff.Sleep(ctx, wait):
			return ctx.Err()
		default:
			c.returnToFirst(ctx) // CheckWith may be why no check is due, and it does not return to the first
		}
	}
}

// Check reads, in one linearizable transaction, all that is followed now. Before that
// it returns to the first endpoint if another one is in use and that works again. It
// notices that the store went back, or that etcd does not answer. Each Follow
// compares its part with its view, and lists again if they differ. Check does not
// wait for that.
func (c *Client) Check(ctx context.Context) error {
	c.returnToFirst(ctx)
	_, err := c.CheckWith(ctx, nil)
	return err
}

// recheck makes a check, unless one of this kind is under way. Its failure is in Contact.
func (c *Client) recheck(ctx context.Context) {
	if c.rechecking.CompareAndSwap(false, true) {
		defer c.rechecking.Store(false)
		_ = c.Check(ctx)
	}
}

// CheckWith makes a check, and in the same transaction runs more: reads that a caller repeats
// regularly. The answer begins with their results. If a condition does not hold, it makes the
// check nevertheless and returns ErrChanged.
func (c *Client) CheckWith(ctx context.Context, conds []clientv3.Cmp, more ...clientv3.Op) (*clientv3.TxnResponse, error) {
	c.mu.Lock()
	c.checked = time.Now()
	c.mu.Unlock()
	followers := c.following()
	if len(followers)+len(more) == 0 {
		// The key is below the prefix, so that a user with rights on nothing else
		// may read it.
		more = []clientv3.Op{clientv3.OpGet(c.prefix, clientv3.WithKeysOnly())}
	}
	ops := make([]clientv3.Op, 0, len(followers))
	keysOnly := make([]bool, 0, len(followers))
	for _, f := range followers {
		opts := []clientv3.OpOption{clientv3.WithPrefix()}
		large := f.size.Load() > maxValues
		if large {
			opts = append(opts, clientv3.WithKeysOnly())
		}
		ops, keysOnly = append(ops, clientv3.OpGet(f.prefix, opts...)), append(keysOnly, large)
	}
	rewinds := c.rewound.Get() // before the request: the answer may come from the older store
	resp, err := c.Txn(ctx, conds, slices.Concat(more, ops), ops)
	if err != nil {
		return nil, err
	}
	at := At{rewinds, resp.Header.Revision}
	for i, read := range resp.Responses[len(resp.Responses)-len(followers):] {
		followers[i].offer(reading{view: newView(at, read.GetResponseRange().Kvs), keysOnly: keysOnly[i]})
	}
	if !resp.Succeeded {
		return nil, ErrChanged
	}
	return resp, nil
}

// WatchDifferences returns how often a watch missed a change of etcd's keys, so that Follow
// listed them again.
func (c *Client) WatchDifferences() int64 { return c.differences.Load() }

func (c *Client) add(f *follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followers = append(c.followers, f)
}

func (c *Client) remove(f *follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followers = slices.DeleteFunc(c.followers, func(o *follower) bool { return o == f })
}

func (c *Client) following() []*follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.followers)
}

// offer hands a reading to the follower, in place of an older one.
func (f *follower) offer(r reading) {
	select {
	case <-f.readings:
	default:
	}
	select {
	case f.readings <- r:
	default: // another check was faster
	}
}

// view is keys at one revision.
type view struct {
	At           // of the last change
	listed int64 // the revision of the listing that it began with; 0: there is none
	sorted []*KV // by key; shared with those to whom it was reported
	kvs    map[string]*KV
}

// newView returns a view of the keys that a request returned. They are sorted.
func newView(at At, kvs []*mvccpb.KeyValue) view {
	v := view{At: at, listed: at.Revision, sorted: newKVs(kvs), kvs: make(map[string]*KV, len(kvs))}
	for _, kv := range v.sorted {
		v.kvs[kv.Key] = kv
	}
	return v
}

// reading is the result of a linearizable read.
type reading struct {
	view
	keysOnly bool // without values
}

// same reports whether a key is the same write in a view and in a reading.
func (r reading) same(a, b *KV) bool {
	return a.ModRevision == b.ModRevision && a.CreateRevision == b.CreateRevision && a.Version == b.Version &&
		(r.keysOnly || bytes.Equal(a.Value, b.Value))
}

// contradicts reports whether the view and the reading cannot be of one history of
// the store. Then the store went back, although its revision may be higher. The view
// may be older than the reading or newer.
func (v view) contradicts(r reading) bool {
	if v.listed == 0 || v.Rewinds != r.Rewinds {
		return false
	}
	for key, was := range v.kvs {
		now, found := r.kvs[key]
		if found && was.ModRevision <= r.Revision && !follows(was, now, r) {
			return true
		}
	}
	if v.Revision > r.Revision {
		return false // a key that is missing in the view may have been deleted after the reading
	}
	for key, now := range r.kvs {
		if _, found := v.kvs[key]; !found && now.ModRevision <= v.listed {
			return true // the listing would contain it
		}
	}
	return false
}

// follows reports whether a key can change from was to now in one history.
func follows(was, now *KV, r reading) bool {
	switch {
	case was.ModRevision == now.ModRevision:
		return r.same(was, now)
	case now.ModRevision < was.ModRevision:
		return false
	case now.CreateRevision == was.CreateRevision:
		return now.Version > was.Version
	}
	return now.CreateRevision > was.ModRevision // it was deleted and created again
}

// lags reports whether the view differs from the reading and is not newer. If it is newer, only
// the next reading shows whether it lags.
func (v view) lags(r reading) bool {
	if v.Rewinds != r.Rewinds || v.Revision > r.Revision {
		return false
	}
	return !maps.EqualFunc(v.kvs, r.kvs, r.same)
}

// missed is a reading that the watch has not reported yet.
type missed struct {
	reading reading
	due     <-chan time.Time // nil: nothing is missed
}

// compare compares the view and the pending writes of this Follow with a reading.
func (f *follower) compare(r reading, m *missed) error {
	if f.contradicts(r) {
		f.client.wentBack(r.Rewinds, r.Revision, "its keys below "+f.prefix+" are not of the same history")
		return errWentBack
	}
	if m.due == nil && f.lags(r) {
		// The event may be on its way.
		m.reading, m.due = r, time.After(missedTime)
	}
	return nil
}

// settle returns errEventLost unless the watch reported the missed reading meanwhile.
func (f *follower) settle(m *missed) error {
	m.due = nil
	if !f.lags(m.reading) {
		return nil
	}
	f.client.differences.Add(1)
	f.client.log.Warn("a watch did not report what etcd has, listing again", "prefix", f.prefix, "revision", m.reading.Revision)
	return errEventLost
}

func (f *follower) contradicts(r reading) bool {
	contradicts, _ := f.compareWrites(r)
	return contradicts || f.view.contradicts(r)
}

func (f *follower) lags(r reading) bool {
	_, lags := f.compareWrites(r)
	return lags || f.view.lags(r)
}

// wrote records that this client wrote a key that the watch has not reported yet. The watch may
// never report it: if etcd is restored at once, the view already matches the restored store.
func (f *follower) wrote(key string, at At) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writes == nil {
		f.writes = map[string]At{}
	}
	f.writes[key] = at
}

// compareWrites compares this client's writes that the watch has not reported yet with a
// reading. A write can be replaced or deleted, but not turned back.
func (f *follower) compareWrites(r reading) (contradicts, lags bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, at := range f.writes {
		now, found := r.kvs[key]
		switch {
		case at.Rewinds != r.Rewinds, at.Rewinds == f.view.Rewinds && at.Revision <= f.view.Revision:
			delete(f.writes, key)
		case at.Revision > r.Revision:
		case found && now.ModRevision < at.Revision:
			contradicts = true
		default:
			lags = true
		}
	}
	return contradicts, lags
}

// wrote records the keys that a transaction wrote.
func (c *Client) wrote(ops []clientv3.Op, at At) {
	for _, f := range c.following() {
		for _, op := range ops {
			if key := string(op.KeyBytes()); op.IsPut() && strings.HasPrefix(key, f.prefix) {
				f.wrote(key, at)
			}
		}
	}
}
