package fleet

import (
	"errors"
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
)

var (
	// ErrNoNode says that there is no record of the node.
	ErrNoNode = errors.New("there is no record of this node")
	// ErrAlive says that the node's presence is there.
	ErrAlive = errors.New("the node is alive: stop its sidecar, and its apiserver, first")
)

// DuplicateError says that another sidecar has this node's ID (DESIGN 4.9).
type DuplicateError struct {
	Node protocol.NodeID
	// Newcomer says that the other was there first; otherwise it took the ID
	// over.
	Newcomer bool
	Detail   string // where the holder is and since when
}

// Error says who holds the ID and what to do.
func (e *DuplicateError) Error() string {
	if e.Newcomer {
		return fmt.Sprintf("node ID %q is held by another sidecar that is alive (%s): stop that one, or give this one its own --node-id", e.Node, e.Detail)
	}
	return fmt.Sprintf("node ID %q was taken over by a newer sidecar (%s); this one stops", e.Node, e.Detail)
}
