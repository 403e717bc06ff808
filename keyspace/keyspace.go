// Package keyspace names Lockstep's keys in etcd (docs/protocol.md#keys). It does
// not know their values: package fleet owns those of node records, presences and
// the store ID, package status that of the status, package election those of
// candidates.
package keyspace

import (
	"fmt"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Keys are the keys of one cluster. All begin with the same prefix.
type Keys struct {
	prefix string
}

// Under returns the keys under prefix. It adds a missing slash at the end.
func Under(prefix string) Keys {
	return Keys{prefix: strings.TrimSuffix(prefix, "/") + "/"}
}

// Nodes returns the prefix of the node records.
func (k Keys) Nodes() string { return k.prefix + "nodes/" }

// Node returns the key of a node record.
func (k Keys) Node(id protocol.NodeID) string { return k.Nodes() + string(id) }

// Presences returns the prefix of the presences.
func (k Keys) Presences() string { return k.prefix + "presence/" }

// Presence returns the key of a presence.
func (k Keys) Presence(id protocol.NodeID) string { return k.Presences() + string(id) }

// Status returns the key of the reconciler status. There is only one.
func (k Keys) Status() string { return k.prefix + "kubernetes/reconciler/status" }

// Store returns the key of the store ID. There is only one.
func (k Keys) Store() string { return k.prefix + "store" }

// Leaders returns the prefix of the candidates' keys. The candidate whose key
// has the lowest create revision leads. The layout is that of the etcd client's
// concurrency.Election (docs/upstream.md#etcd-election-layout).
func (k Keys) Leaders() string { return k.prefix + "kubernetes/reconciler/leader/" }

// Leader returns the key of the candidate that holds a lease.
func (k Keys) Leader(lease int64) string { return fmt.Sprintf("%s%x", k.Leaders(), lease) }

// NodeOf returns the node ID in the key of a node record or a presence.
func (k Keys) NodeOf(key string) protocol.NodeID {
	if id, isRecord := strings.CutPrefix(key, k.Nodes()); isRecord {
		return protocol.NodeID(id)
	}
	return protocol.NodeID(strings.TrimPrefix(key, k.Presences()))
}
