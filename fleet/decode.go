package fleet

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Decoder decodes listings, one after another. It decodes only keys that have changed
// since the listing before, so that one change costs little in a large fleet. Its zero
// value is ready to use. It is not safe for concurrent use.
type Decoder struct {
	records   decodedKeys[protocol.Record]
	presences decodedKeys[namedPresence]
	fleet     []protocol.Record // the records with their presences
}

// namedPresence is a presence, and whose it is.
type namedPresence struct {
	id       protocol.NodeID
	presence protocol.Presence
}

// Decode returns the fleet of two listings. The records are sorted by ID: listings are
// sorted by key. They belong to the caller.
func (d *Decoder) Decode(keys keyspace.Keys, nodes, presences etcd.Listing) protocol.Fleet {
	records := d.records.update(nodes.KVs, func(kv etcd.KV) protocol.Record { return decodeRecord(keys.NodeOf(kv.Key), kv) })
	alive := d.presences.update(presences.KVs, func(kv etcd.KV) namedPresence {
		return namedPresence{keys.NodeOf(kv.Key), decodePresence(kv.Value)}
	})
	if records.other || alive.other {
		d.merge()
	} else {
		for _, i := range records.changed {
			d.mergeRecord(i)
		}
		for _, j := range alive.changed {
			if i, found := slices.BinarySearchFunc(d.fleet, d.presences.values[j].id, byID); found {
				d.mergeRecord(i)
			}
		}
	}
	return protocol.Fleet{Revision: nodes.Revision, Rewinds: nodes.Rewinds, Records: slices.Clone(d.fleet)}
}

// merge brings together all records and presences.
func (d *Decoder) merge() {
	d.fleet = append(make([]protocol.Record, 0, len(d.records.values)), d.records.values...)
	i := 0
	for j := range d.presences.values {
		p := &d.presences.values[j]
		for i < len(d.fleet) && d.fleet[i].ID < p.id {
			i++
		}
		if i < len(d.fleet) && d.fleet[i].ID == p.id {
			d.fleet[i].Presence, d.fleet[i].Alive = p.presence, true
		}
	}
}

// mergeRecord brings together the i-th record and its presence.
func (d *Decoder) mergeRecord(i int) {
	d.fleet[i] = d.records.values[i]
	alive := d.presences.values
	if j, found := slices.BinarySearchFunc(alive, d.fleet[i].ID, ofNode); found {
		d.fleet[i].Presence, d.fleet[i].Alive = alive[j].presence, true
	}
}

func ofNode(p namedPresence, id protocol.NodeID) int { return cmp.Compare(p.id, id) }

func byID(r protocol.Record, id protocol.NodeID) int { return cmp.Compare(r.ID, id) }

// decodedKeys is a listing with what its keys decode to.
type decodedKeys[T any] struct {
	kvs    []etcd.KV
	values []T // of the same length
}

// difference is what an update has changed.
type difference struct {
	changed []int // indices of the values that were decoded again
	other   bool  // the listing has other keys than before: all values may have another index
}

// update decodes the keys of a listing, in their order.
func (d *decodedKeys[T]) update(kvs []etcd.KV, decode func(etcd.KV) T) difference {
	if len(kvs) > 0 && len(kvs) == len(d.kvs) && &kvs[0] == &d.kvs[0] {
		return difference{} // the same listing
	}
	if sameKeys(d.kvs, kvs) {
		var out difference
		for i := range kvs {
			if !sameWrite(&d.kvs[i], &kvs[i]) {
				d.values[i] = decode(kvs[i])
				out.changed = append(out.changed, i)
			}
		}
		d.kvs = kvs
		return out
	}
	values := make([]T, len(kvs))
	i := 0
	for j, kv := range kvs {
		for i < len(d.kvs) && d.kvs[i].Key < kv.Key {
			i++
		}
		if i < len(d.kvs) && sameWrite(&d.kvs[i], &kv) {
			values[j] = d.values[i]
		} else {
			values[j] = decode(kv)
		}
	}
	d.kvs, d.values = kvs, values
	return difference{other: true}
}

func sameKeys(a, b []etcd.KV) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key {
			return false
		}
	}
	return true
}

// sameWrite reports whether two keys are the same, and the same write of it. The
// revisions alone do not show that: etcd may have been restored from a backup.
func sameWrite(a, b *etcd.KV) bool {
	return a.Key == b.Key && a.ModRevision == b.ModRevision && a.CreateRevision == b.CreateRevision &&
		a.Version == b.Version && bytes.Equal(a.Value, b.Value)
}
