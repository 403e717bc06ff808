package fleet

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Follower keeps the newest observation of all records and presences, and of the
// store ID. It may lag behind etcd, so a leader decides from its own snapshot instead.
type Follower struct {
	client *etcd.Client
	keys   keyspace.Keys
	fleet  *event.Value[protocol.Fleet]
	store  *event.Value[StoreKey]

	mu      sync.Mutex // mu guards the fields below, and that fleets are published in its order
	seen    observed
	decoder Decoder
}

// observed contains the parts of an observation. It is complete once each was listed.
type observed struct {
	nodes, presences etcd.Listing
	rollback         protocol.Rollback
	turns            protocol.Turns

	nodesKnown, presencesKnown, rollbackKnown, turnsKnown bool
}

func (o *observed) complete() bool {
	return o.nodesKnown && o.presencesKnown && o.rollbackKnown && o.turnsKnown
}

// NewFollower returns a follower that has observed nothing yet. The revision of its fleet is 0.
func NewFollower(client *etcd.Client) *Follower {
	return &Follower{
		client: client, keys: keyspace.Under(client.Prefix()),
		fleet: event.New(protocol.Fleet{}), store: event.New(StoreKey{}),
	}
}

// Follow follows the fleet until end is called, or ctx ends. end returns when that has stopped.
func Follow(ctx context.Context, client *etcd.Client) (now *event.Value[protocol.Fleet], end func()) {
	ctx, cancel := context.WithCancel(ctx)
	f, ended := NewFollower(client), make(chan struct{})
	go func() {
		defer close(ended)
		_ = f.Run(ctx) // it ends only when ctx does
	}()
	return f.fleet, func() { cancel(); <-ended }
}

// Fleet follows the observed fleet. It has the revision of the last change of a node record. It
// is 0 until both records and presences were listed.
func (f *Follower) Fleet() *event.Value[protocol.Fleet] { return f.fleet }

// Store follows the key of the store ID.
func (f *Follower) Store() *event.Value[StoreKey] { return f.store }

// Run follows etcd until ctx ends, and returns ctx's error.
func (f *Follower) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return f.client.Follow(ctx, f.keys.Nodes(), func(l etcd.Listing) {
			f.observe(func(o *observed) { o.nodes, o.nodesKnown = l, l.Revision != 0 })
		})
	})
	group.Go(func() error {
		return f.client.Follow(ctx, f.keys.Presences(), func(l etcd.Listing) {
			f.observe(func(o *observed) { o.presences, o.presencesKnown = l, true })
		})
	})
	group.Go(func() error {
		key := f.keys.Rollback()
		return f.client.Follow(ctx, key, func(l etcd.Listing) {
			f.observe(func(o *observed) { o.rollback, o.rollbackKnown = DecodeRollback(key, l), true })
		})
	})
	group.Go(func() error {
		return f.client.Follow(ctx, f.keys.Turns(), func(l etcd.Listing) {
			f.observe(func(o *observed) { o.turns, o.turnsKnown = decodeTurns(f.keys, l), true })
		})
	})
	group.Go(func() error {
		key := f.keys.Store()
		return f.client.Follow(ctx, key, func(l etcd.Listing) { f.store.Set(decodeStoreKey(key, l)) })
	})
	return group.Wait()
}

func (f *Follower) observe(change func(*observed)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.seen)
	if f.seen.complete() {
		fleet := f.decoder.Decode(f.keys, f.seen.nodes, f.seen.presences)
		fleet.Rollback, fleet.Turns = f.seen.rollback, f.seen.turns
		f.fleet.Set(fleet)
	}
}
