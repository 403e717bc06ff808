package quorum

import (
	"errors"
	"fmt"

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
	// ErrRemoved is returned for a node that joins with the key of a member that an operator removed.
	ErrRemoved = errors.New("empty its data directory and join with a new token")
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
