package fleet

import (
	"bytes"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// decoder decodes listings, one after another. It decodes only keys that have changed
// since the listing before, so that one change costs little in a large fleet.
type decoder struct {
	records   decodedKeys[protocol.Record]
	presences decodedKeys[namedPresence]
}

// namedPresence is a presence, and whose it is.
type namedPresence struct {
	id       protocol.NodeID
	presence protocol.Presence
}

// decode returns the fleet of two listings. The records are sorted by ID: listings are
// sorted by key.
func (d *decoder) decode(keys keyspace.Keys, nodes, presences etcd.Listing) protocol.Fleet {
	records := d.records.update(nodes.KVs, func(kv etcd.KV) protocol.Record { return decodeRecord(keys.NodeOf(kv.Key), kv) })
	alive := d.presences.update(presences.KVs, func(kv etcd.KV) namedPresence {
		return namedPresence{keys.NodeOf(kv.Key), decodePresence(kv.Value)}
	})
	out := protocol.Fleet{
		Revision: nodes.Revision, Rewinds: nodes.Rewinds,
		Records: append(make([]protocol.Record, 0, len(records)), records...),
	}
	i := 0
	for j := range alive {
		p := &alive[j]
		for i < len(out.Records) && out.Records[i].ID < p.id {
			i++
		}
		if i < len(out.Records) && out.Records[i].ID == p.id {
			out.Records[i].Presence, out.Records[i].Alive = p.presence, true
		}
	}
	return out
}

// decodedKeys is a listing with what its keys decode to.
type decodedKeys[T any] struct {
	kvs    []etcd.KV
	values []T // of the same length
}

// update returns what the keys of a listing decode to, in their order. The slice is
// valid until the next call.
func (d *decodedKeys[T]) update(kvs []etcd.KV, decode func(etcd.KV) T) []T {
	if len(kvs) > 0 && len(kvs) == len(d.kvs) && &kvs[0] == &d.kvs[0] {
		return d.values // the same listing
	}
	if sameKeys(d.kvs, kvs) {
		for i := range kvs {
			if !sameWrite(&d.kvs[i], &kvs[i]) {
				d.values[i] = decode(kvs[i])
			}
		}
		d.kvs = kvs
		return d.values
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
	return values
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
