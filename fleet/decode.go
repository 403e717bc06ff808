package fleet

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Decoder decodes listings, one after another. It decodes only keys that changed since the
// listing before, so that one change costs little in a large fleet. Its zero value is ready to
// use. It is not safe for concurrent use.
type Decoder struct {
	records   decodedKeys[protocol.Record] // without their presences
	presences decodedKeys[namedPresence]
	whole     []*protocol.Record // the records with their presences, sorted by ID
}

// namedPresence is a presence, and whose it is.
type namedPresence struct {
	id       protocol.NodeID
	presence protocol.Presence
}

// Decode returns the fleet of two listings. The records are sorted by ID: listings are sorted
// by key. The slice belongs to the caller. The records do not: the next fleet shares all that
// did not change.
func (d *Decoder) Decode(keys keyspace.Keys, nodes, presences etcd.Listing) protocol.Fleet {
	records := d.records.update(nodes.KVs, func(kv *etcd.KV) protocol.Record { return decodeRecord(keys.NodeOf(kv.Key), *kv) })
	alive := d.presences.update(presences.KVs, func(kv *etcd.KV) namedPresence {
		out := namedPresence{keys.NodeOf(kv.Key), decodePresence(kv.Value)}
		out.presence.Revision = kv.ModRevision
		return out
	})
	if records.others || alive.others {
		d.joinAll()
	} else {
		for _, i := range records.changed {
			d.join(i)
		}
		for _, j := range alive.changed {
			if i, found := slices.BinarySearchFunc(d.records.values, d.presences.values[j].id, ofRecord); found {
				d.join(i)
			}
		}
	}
	return protocol.Fleet{Revision: nodes.Revision, Rewinds: nodes.Rewinds, Records: slices.Clone(d.whole)}
}

// joinAll brings together all records and presences.
func (d *Decoder) joinAll() {
	d.whole = make([]*protocol.Record, len(d.records.values))
	for i := range d.whole {
		d.join(i)
	}
}

// join brings together the i-th record and its presence.
func (d *Decoder) join(i int) {
	record := d.records.values[i]
	d.whole[i] = record
	if j, found := slices.BinarySearchFunc(d.presences.values, record.ID, ofPresence); found {
		whole := *record
		whole.Presence, whole.Alive = d.presences.values[j].presence, true
		d.whole[i] = &whole
	}
}

func ofRecord(r *protocol.Record, id protocol.NodeID) int { return cmp.Compare(r.ID, id) }

func ofPresence(p *namedPresence, id protocol.NodeID) int { return cmp.Compare(p.id, id) }

// decodedKeys is a listing with the decoded values of its keys.
type decodedKeys[T any] struct {
	kvs    []*etcd.KV
	values []*T // of the same length
}

// difference describes the changes of an update.
type difference struct {
	changed []int // indices of the values that were decoded again
	others  bool  // the listing contains other keys than before: all indices may differ
}

// update decodes the keys of a listing, in their order. A key that was not written since
// keeps its pointer.
func (d *decodedKeys[T]) update(kvs []*etcd.KV, decode func(*etcd.KV) T) difference {
	if len(kvs) > 0 && len(kvs) == len(d.kvs) && &kvs[0] == &d.kvs[0] {
		return difference{} // the same listing
	}
	if written, same := d.sameKeys(kvs); same {
		for _, i := range written {
			d.values[i] = new(decode(kvs[i]))
		}
		d.kvs = kvs
		return difference{changed: written}
	}
	out := difference{others: len(kvs) != len(d.kvs)}
	values := make([]*T, len(kvs))
	was := 0
	for i, kv := range kvs {
		// Most pointers are the same as before: then nothing of the keys is read.
		for was < len(d.kvs) && d.kvs[was] != kv && d.kvs[was].Key < kv.Key {
			was++
		}
		if was < len(d.kvs) && sameWrite(d.kvs[was], kv) {
			values[i] = d.values[was]
			was++
			continue
		}
		values[i] = new(decode(kv))
		out.changed = append(out.changed, i)
		if was < len(d.kvs) && d.kvs[was].Key == kv.Key {
			was++
		} else {
			out.others = true
		}
	}
	d.kvs, d.values = kvs, values
	return out
}

// sameKeys reports whether a listing has the keys of the one before, and returns the indices of those that were written since.
func (d *decodedKeys[T]) sameKeys(kvs []*etcd.KV) (written []int, same bool) {
	if len(kvs) != len(d.kvs) {
		return nil, false
	}
	for i, kv := range kvs {
		was := d.kvs[i]
		switch { // most pointers are the same as before: then nothing of the keys is read
		case was == kv:
		case was.Key != kv.Key:
			return nil, false
		case !sameWrite(was, kv):
			written = append(written, i)
		}
	}
	return written, true
}

// sameWrite reports whether two keys are the same, and the same write of it. The revisions
// alone do not show that: etcd may have been restored from a backup.
func sameWrite(a, b *etcd.KV) bool {
	return a == b || a.Key == b.Key && a.ModRevision == b.ModRevision && a.CreateRevision == b.CreateRevision &&
		a.Version == b.Version && bytes.Equal(a.Value, b.Value)
}
