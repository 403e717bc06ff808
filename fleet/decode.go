package fleet

import (
	"bytes"
	"slices"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Decoder decodes listings, one after another. It decodes only keys that have changed
// since the listing before, so that one change costs little in a large fleet. Its zero
// value is ready to use. It is not safe for concurrent use.
type Decoder struct {
	records   decodedKeys[protocol.Record] // without their presences
	presences decodedKeys[namedPresence]
	nodes     []decodedNode // of the newest listings, sorted by ID
	spare     []decodedNode // of the listings before those: its memory is used again
}

// namedPresence is a presence, and whose it is.
type namedPresence struct {
	id       protocol.NodeID
	presence protocol.Presence
}

// decodedNode is a record, its presence (nil: it has none), and both together.
type decodedNode struct {
	record   *protocol.Record
	presence *namedPresence
	whole    *protocol.Record
}

// Decode returns the fleet of two listings. The records are sorted by ID: listings are
// sorted by key. The slice belongs to the caller. The records do not: the next fleet has
// the same ones, except those that have changed.
func (d *Decoder) Decode(keys keyspace.Keys, nodes, presences etcd.Listing) protocol.Fleet {
	d.records.update(nodes.KVs, func(kv *etcd.KV) protocol.Record { return decodeRecord(keys.NodeOf(kv.Key), *kv) })
	d.presences.update(presences.KVs, func(kv *etcd.KV) namedPresence {
		return namedPresence{keys.NodeOf(kv.Key), decodePresence(kv.Value)}
	})
	d.join()
	fleet := protocol.Fleet{Revision: nodes.Revision, Rewinds: nodes.Rewinds, Records: make([]*protocol.Record, len(d.nodes))}
	for i := range d.nodes {
		fleet.Records[i] = d.nodes[i].whole
	}
	return fleet
}

// join brings together all records and presences. All lists are sorted by ID.
func (d *Decoder) join() {
	before, alive := d.nodes, d.presences.values
	d.nodes, d.spare = slices.Grow(d.spare[:0], len(d.records.values)), d.nodes
	for _, record := range d.records.values {
		now := decodedNode{record: record, whole: record}
		for len(alive) > 0 && alive[0].id < record.ID {
			alive = alive[1:]
		}
		if len(alive) > 0 && alive[0].id == record.ID {
			now.presence = alive[0]
		}
		for len(before) > 0 && before[0].record != record && before[0].record.ID < record.ID {
			before = before[1:]
		}
		switch {
		case len(before) > 0 && before[0].record == record && before[0].presence == now.presence:
			now.whole = before[0].whole
		case now.presence != nil:
			whole := *record
			whole.Presence, whole.Alive = now.presence.presence, true
			now.whole = &whole
		}
		d.nodes = append(d.nodes, now)
	}
}

// decodedKeys is a listing with what its keys decode to.
type decodedKeys[T any] struct {
	kvs    []*etcd.KV
	values []*T // of the same length
}

// update decodes the keys of a listing, in their order. A key that was not written since
// keeps its pointer.
func (d *decodedKeys[T]) update(kvs []*etcd.KV, decode func(*etcd.KV) T) {
	if len(kvs) > 0 && len(kvs) == len(d.kvs) && &kvs[0] == &d.kvs[0] {
		return // the same listing
	}
	values := make([]*T, len(kvs))
	was := 0
	for i, kv := range kvs {
		for was < len(d.kvs) && d.kvs[was] != kv && d.kvs[was].Key < kv.Key {
			was++
		}
		if was < len(d.kvs) && sameWrite(d.kvs[was], kv) {
			values[i] = d.values[was]
		} else {
			values[i] = new(decode(kv))
		}
	}
	d.kvs, d.values = kvs, values
}

// sameWrite reports whether two keys are the same, and the same write of it. The
// revisions alone do not show that: etcd may have been restored from a backup.
func sameWrite(a, b *etcd.KV) bool {
	return a == b || a.Key == b.Key && a.ModRevision == b.ModRevision && a.CreateRevision == b.CreateRevision &&
		a.Version == b.Version && bytes.Equal(a.Value, b.Value)
}
