package etcd

import (
	"fmt"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Keys is the layout of the keys under one prefix (DESIGN section 3). All stand
// under it because one transaction spans node records and the status.
type Keys struct {
	prefix string
}

// NewKeys returns the layout under prefix; a missing slash at its end is added.
func NewKeys(prefix string) Keys {
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

// Status returns the one status key.
func (k Keys) Status() string { return k.prefix + "kubernetes/reconciler/status" }

// Leaders returns the prefix of the candidates' keys; the one with the lowest
// create revision leads. They are laid out as an etcd concurrency.Election.
func (k Keys) Leaders() string { return k.prefix + "kubernetes/reconciler/leader/" }

// Leader returns the key of the candidate that holds the lease.
func (k Keys) Leader(lease int64) string { return fmt.Sprintf("%s%x", k.Leaders(), lease) }

// NodeOf returns the ID in a key of a node record or presence.
func (k Keys) NodeOf(key string) protocol.NodeID {
	if id, ok := strings.CutPrefix(key, k.Nodes()); ok {
		return protocol.NodeID(id)
	}
	return protocol.NodeID(strings.TrimPrefix(key, k.Presences()))
}
