// Package record defines the values that describe an etcd cluster whose members
// the sidecars run themselves (docs/clusters.md#keys): the cluster, its members,
// which of them are not voters yet, and which were removed. It converts them to
// and from bytes. Packages cluster and cluster/quorum write them.
package record

import (
	"regexp"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Cluster is an etcd cluster whose members the sidecars run themselves.
type Cluster struct {
	ID            string // random, a UUID; the token of the etcd cluster
	EtcdClusterID uint64
	CA            pki.Hash // of the public key of its CA
	Created       time.Time
}

// Member is a member of the cluster, or one that an operator removed.
type Member struct {
	ID      uint64 // of etcd; in the key, not in the value
	Node    protocol.NodeID
	Address string // the IP address of the node

	PeerURL   string
	ClientURL string
	JoinURL   string // where it answers joins

	Key     pki.Hash // of the node's public key
	Serial  string   // of its newest certificate that is known, in hexadecimal
	Added   time.Time
	Leaving bool      // its removal was decided
	Removed time.Time // when an operator decided to remove it for good; zero: none did
	By      string    // the user and the machine that typed that; empty: unknown
}

// nodeID is the form of a node ID: a DNS subdomain.
var nodeID = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

const maxNodeID = 253

// IsNodeID reports whether text is a DNS subdomain, as a node ID must be.
func IsNodeID(text string) bool { return len(text) <= maxNodeID && nodeID.MatchString(text) }
