package fleet

import (
	"errors"
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
)

var (
	// ErrNoNode is returned when the node's record is missing.
	ErrNoNode = errors.New("the node has no record")
	// ErrAlive is returned when the node's presence still exists.
	ErrAlive = errors.New("the node is alive: stop its sidecar and its kube-apiserver first")
	// ErrNotAlive is returned when a node's presence is missing, but it may still serve.
	ErrNotAlive = errors.New("the node is not alive, and its kube-apiserver may still serve")
	// ErrLastInService is returned when no other node in service runs a kube-apiserver that is
	// ready.
	ErrLastInService = errors.New("no other node is in service and has a kube-apiserver that is ready: this one may be the last that serves")
	// ErrGoverned is returned when a store contains a status and a valid ID, so that it must
	// not get another one.
	ErrGoverned = errors.New("this store has a status: its leader governs objects already")
	// ErrNoTurn is returned when a node has no turn, or another one than the one to be changed.
	ErrNoTurn = errors.New("the node has no turn")
)

var (
	// errNoPresence: this sidecar's presence is not in etcd yet.
	errNoPresence = errors.New("this sidecar has no presence in etcd yet")
	// errRoles: a registration waits until the roles on disk were read.
	errRoles = errors.New("the roles of this node were not read from the disk yet")
	// errServices: a registration waits for this node's services.
	errServices = errors.New("the services of this node are not ready, or those of another release still run")
	// errWentBack: etcd was restored from a backup, with what was on the lease then.
	errWentBack = errors.New("etcd went back to an older state, and the lease with it")
	// errLate: the answer to a registration took so long that leaders may already ignore the
	// record.
	errLate = errors.New("etcd answered too late")
)

// DuplicateError reports that another sidecar uses this node's ID
// (docs/protocol-nodes.md#duplicate-ids).
type DuplicateError struct {
	Node protocol.NodeID
	// Newcomer is true if the other sidecar used the ID first. Otherwise the other one is newer
	// and took the ID over.
	Newcomer bool
	Detail   string // where the other sidecar runs, and its verdict
}

// Complete implements supervise.Complete: the message needs no name of a worker.
func (*DuplicateError) Complete() {}

// Error says which sidecar keeps the ID, with the remedy.
func (e *DuplicateError) Error() string {
	if e.Newcomer {
		return fmt.Sprintf("node ID %q is held by another sidecar that is alive (%s): stop that one, or give this one its own --node-id", e.Node, e.Detail)
	}
	return fmt.Sprintf("node ID %q was taken over by a newer sidecar (%s); this one stops: give each sidecar its own --node-id, and start this one again", e.Node, e.Detail)
}
