package soak

import (
	"context"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/soak/judge"
)

// newAge ends the history, lets restore do its work, and begins another history with
// the keys that etcd contains then. Revisions of two ages do not compare. Answers of
// sidecars do not count before settled. snapshot translates a revision of the restored
// etcd into the one that etcd went back to.
func (r *recorder) newAge(ctx context.Context, snapshot func(now int64) int64, restore func() error) error {
	if err := r.endAge(ctx); err != nil {
		return err
	}
	r.watching.Lock()
	defer r.watching.Unlock()
	if err := restore(); err != nil {
		return err
	}
	sent := r.now()
	resp, err := r.clients[0].Get(ctx, "", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend))
	if err != nil {
		return fmt.Errorf("read the restored etcd: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past = append(r.past, r.history)
	r.history = judge.History{
		Bundles: r.history.Bundles, Restored: resp.Header.Revision, Former: former(r.history.Events, snapshot(resp.Header.Revision)),
		Settled: time.Duration(1<<63 - 1),
	}
	r.ended = false
	r.objects = map[string]seen{}
	r.lost, r.cleaning = 0, 0
	for _, kv := range resp.Kvs {
		if e, ok := r.decode(&clientv3.Event{Kv: kv}); ok {
			e.Revision, e.Seen, e.Foreign = kv.ModRevision, sent, true
			if e.Candidate != nil {
				e.Candidate.Created = kv.CreateRevision
			}
			r.history.Events = append(r.history.Events, e)
		}
	}
	r.next, r.read = resp.Header.Revision+1, resp.Header.Revision
	r.history.Readings = append(r.history.Readings, judge.Reading{Sent: sent, Got: r.now(), Revision: resp.Header.Revision})
	return nil
}

// former returns the epochs of the leaderships that end when etcd goes back to a
// revision: all that wrote a status. If no key of sidecars was written after
// that revision, they cannot notice it, and leaders go on. Objects do not count:
// leaders list them again when the kube-apiservers are started again.
func former(events []judge.Event, revision int64) []int64 {
	var epochs []int64
	lost := false
	for _, e := range events {
		lost = lost || e.Revision > revision && e.Object == nil && e.Mark == nil
		if e.Status != nil && e.Status.Kind == protocol.StatusPresent {
			epochs = append(epochs, e.Status.Status.Epoch)
		}
	}
	if !lost {
		return nil
	}
	return epochs
}

// endAge ends the watch. Answers of sidecars from before it can be judged: the recorder
// received all writes until then.
func (r *recorder) endAge(ctx context.Context) error {
	until := r.now()
	for round := 0; !r.readOnce(ctx, r.clients[round%len(r.clients)]); round++ {
		if !pause(ctx, readPause) {
			return ctx.Err()
		}
	}
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.history.Probes = slices.DeleteFunc(r.history.Probes, func(p judge.Probe) bool { return p.Got > until })
	if r.stop != nil {
		r.stop()
	}
	return nil
}

// settle lets the answers of sidecars count again.
func (r *recorder) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Settled = r.now()
}

// position is the newest revision that was received, and the age that it belongs to.
func (r *recorder) position() (revision int64, age int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next - 1, len(r.past)
}

// histories returns the history of each age.
func (r *recorder) histories() []judge.History {
	r.mu.Lock()
	past := slices.Clone(r.past)
	r.mu.Unlock()
	return append(past, r.historySoFar())
}

// awaitStatus returns the next status for which cond holds, and false if ctx ends
// first.
func (r *recorder) awaitStatus(ctx context.Context, cond func(protocol.Status) bool) (protocol.Status, bool) {
	r.mu.Lock()
	from := len(r.history.Events)
	r.mu.Unlock()
	for {
		r.mu.Lock()
		from = min(from, len(r.history.Events)) // a new age starts with few events
		events, changed := r.history.Events[from:], r.changed
		from = len(r.history.Events)
		r.mu.Unlock()
		for _, e := range events {
			if e.Status != nil && e.Status.Kind == protocol.StatusPresent && cond(e.Status.Status) {
				return e.Status.Status, true
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return protocol.Status{}, false
		}
	}
}

// pause waits for d, or until ctx ends. It returns false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
