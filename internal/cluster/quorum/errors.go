package quorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

var (
	// ErrNoCluster is returned if the sidecars do not run this etcd themselves.
	ErrNoCluster = errors.New("the sidecars do not run this etcd themselves (--etcd=embedded)")
	// ErrWait is returned for a node that cannot be added now, and can be in a moment.
	ErrWait = errors.New("the cluster cannot add a member now")
	// ErrNoQuorum is returned if too few voters answer to change anything.
	ErrNoQuorum = errors.New("the cluster has no majority of its members")
	// ErrRotating is returned for a node that joins while the CA is replaced, and for a token.
	ErrRotating = errors.New("the CA of the cluster is being replaced; sidecar cluster rotate-ca on a member shows what it waits for; then create a new token")
	// ErrRefused is returned for a removal that would harm the cluster.
	ErrRefused = errors.New("not removed")
)

// InUseError is returned for a node that cannot be added because a member uses its ID
// or its address.
type InUseError struct {
	What   string // the ID or the address
	Member uint64
	Node   protocol.NodeID // empty: unknown
}

func (e *InUseError) Error() string {
	id := keyspace.MemberID(e.Member)
	of := "member " + id
	if e.Node != "" {
		of = fmt.Sprintf("node %q (member %s)", e.Node, id)
	}
	return fmt.Sprintf("%s is in use by %s; if that node has lost its data directory or is off for good, remove it first, on a member: sidecar cluster remove %s",
		e.What, of, id)
}

// CorruptRotationError is returned if the record of the replacement of the CA cannot be read. Only
// its earlier revision shows its content. To delete the record during a replacement would leave nodes
// that trust different CAs.
type CorruptRotationError struct {
	Key      string
	Revision int64 // at which it was written
	Err      error
}

func (e *CorruptRotationError) Error() string {
	return fmt.Sprintf("%v: a client of etcd wrote the key %s at revision %d, and until that is repaired no CA is replaced and no node joins; "+
		"type: etcdctl get %[2]s --rev=%[4]d, and write what it had with etcdctl put; if it had nothing, or the phase Ended, type: etcdctl del %[2]s (docs/clusters.md#replace-the-ca)",
		e.Err, e.Key, e.Revision, e.Revision-1)
}

// Unwrap returns the error about the value.
func (e *CorruptRotationError) Unwrap() error { return e.Err }

// UnknownError is returned for a removal that names no member.
type UnknownError struct {
	Name       string
	Members    string // those that there are
	Registered bool   // there is a node record with this ID
}

func (e *UnknownError) Error() string {
	if e.Registered {
		return fmt.Sprintf("node %q is no member of this etcd (its members are: %s), so only its record is left: if the node is off for good, "+
			"type: sidecar node remove %[1]s --confirm-stopped", e.Name, e.Members)
	}
	return fmt.Sprintf("no member has the ID or the node ID %q; the members are: %s; type sidecar cluster remove with one of these IDs", e.Name, e.Members)
}

// Is makes it the ErrNoMember of package etcd.
func (*UnknownError) Is(target error) bool { return target == etcd.ErrNoMember }

// RemovedError is returned for a node that joins with the key of a member that an
// operator removed.
type RemovedError struct {
	Node protocol.NodeID
	At   time.Time
}

func (e *RemovedError) Error() string {
	return fmt.Sprintf("node %q was removed from the cluster at %s; empty its data directory and join with a new token", e.Node, e.At.UTC().Format(time.RFC3339))
}
