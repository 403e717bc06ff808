package fleet

import (
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol"
)

// DecodeRollback returns the rollback of a listing that contains its key
// (docs/protocol-objects.md#rollback). A value without a release or an end counts as missing: no command
// writes it.
func DecodeRollback(key string, l etcd.Listing) protocol.Rollback {
	for _, kv := range l.KVs {
		if kv.Key == key { // a listing also contains keys that only begin with it
			return decodeRollback(kv)
		}
	}
	return protocol.Rollback{}
}
