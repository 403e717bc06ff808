package membership

import "github.com/lockstep-dev/lockstep/protocol"

// This file decides whether a node may be added as a member (docs/protocol-membership.md#addresses).

// AddedNode is a node that is to be added as a member.
type AddedNode struct {
	Node protocol.NodeID
	// Key identifies the key of its certificate.
	Key                string
	Address            string
	PeerURL, ClientURL string
}

// Occupant is an existing member, with its record in the store.
type Occupant struct {
	PeerURLs []string
	Learner  bool
	Started  bool // it reported its name
	// Leaving: its removal was decided, and may be carried out at any time.
	Leaving bool
	// Recorded: the store contains a record of it, which fills AddedNode. The URLs include
	// the node's ports.
	Recorded bool
	AddedNode
}

// AdditionVerdict says whether a node may be added.
type AdditionVerdict int

// The verdicts. The zero value: not judged yet.
const (
	_ AdditionVerdict = iota
	// MayAdd: no member uses its address.
	MayAdd
	// WasAdded: an earlier attempt added it.
	WasAdded
	// AwaitRemoval: a member without a node uses its peer URL, and is being removed.
	AwaitRemoval
	// PeerInUse: another member uses its peer URL.
	PeerInUse
	// NodeInUse: another member uses its node ID.
	NodeInUse
	// ClientInUse: another member uses its client URL.
	ClientInUse
	// KeyRemoved: a member with its key was removed for good.
	KeyRemoved
)

// JudgeAddition decides whether a node may be added, and returns the index of the member or
// removed key that decided it (-1: none). A learner without a record at the node's address is
// left from an attempt that died before it wrote the record: the node at that address adopts it.
func JudgeAddition(node AddedNode, members []Occupant, removedKeys []string) (AdditionVerdict, int) {
	for i, key := range removedKeys {
		if key == node.Key {
			return KeyRemoved, i
		}
	}
	verdict, which := MayAdd, -1
	for i, m := range members {
		v := m.against(node)
		switch v {
		case MayAdd:
		case WasAdded:
			verdict, which = v, i // another member may still be in its way
		default:
			return v, i
		}
	}
	return verdict, which
}

// against judges the node by one member.
func (m Occupant) against(node AddedNode) AdditionVerdict {
	peer := false
	for _, url := range m.PeerURLs {
		peer = peer || url == node.PeerURL
	}
	switch {
	// Before PeerInUse, or a node would refuse its own member.
	case peer && m.Recorded && m.Node == node.Node && m.Key == node.Key:
		return WasAdded
	case peer && m.Node == "" && m.Leaving:
		return AwaitRemoval // adopted, it would be removed when others count on it
	case peer && !m.Recorded && m.Learner && !m.Started:
		return WasAdded // below, what an earlier attempt left would refuse its node for ever
	case peer:
		return PeerInUse
	case m.Recorded && m.Node == node.Node:
		return NodeInUse
	case m.Recorded && m.Address == node.Address && m.ClientURL == node.ClientURL:
		return ClientInUse
	}
	return MayAdd
}
