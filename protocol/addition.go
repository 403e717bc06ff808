package protocol

// This file says whether a node may be added as a member (docs/protocol.md#addresses).

// AddedNode is a node that is to be added as a member.
type AddedNode struct {
	Node NodeID
	// Key identifies the key of its certificate.
	Key                string
	Address            string
	PeerURL, ClientURL string
}

// Occupant is a member, and what the store has of it.
type Occupant struct {
	PeerURLs []string
	Learner  bool
	Started  bool // it has reported its name
	// Leaving: its removal was decided, and may be carried out at any time.
	Leaving bool
	// Recorded: the store has a record of it, which has what follows. The ports of that node
	// are in its URL.
	Recorded bool
	AddedNode
}

// AdditionVerdict is whether a node may be added.
type AdditionVerdict int

// The verdicts. The zero value: none was reached.
const (
	AdditionUnset AdditionVerdict = iota
	// MayAdd: no member uses its address.
	MayAdd
	// WasAdded: an earlier attempt has added it.
	WasAdded
	// AwaitRemoval: one without a node has its peer URL, and is being removed.
	AwaitRemoval
	// PeerInUse: another member has its peer URL.
	PeerInUse
	// NodeInUse: another member has its node ID.
	NodeInUse
	// ClientInUse: another member has its client URL.
	ClientInUse
	// KeyRemoved: a member with its key was removed for good.
	KeyRemoved
)

// JudgeAddition says whether a node may be added, and which member or which removed key
// decides that (-1: none). A learner without a record at the node's address is the rest of an
// attempt that ended before it wrote the record: the node that has the address takes it over.
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
			verdict, which = v, i // another one may still be in its way
		default:
			return v, i
		}
	}
	return verdict, which
}

// against judges by one member.
func (m Occupant) against(node AddedNode) AdditionVerdict {
	peer := false
	for _, url := range m.PeerURLs {
		peer = peer || url == node.PeerURL
	}
	switch {
	// Before the case of an address in use, as which a node would refuse its own member.
	case peer && m.Recorded && m.Node == node.Node && m.Key == node.Key:
		return WasAdded
	case peer && m.Node == "" && m.Leaving:
		return AwaitRemoval // as the node's member it would be removed when others count on it
	case peer && !m.Recorded && m.Learner && !m.Started:
		return WasAdded
	case peer:
		return PeerInUse
	case m.Recorded && m.Node == node.Node:
		return NodeInUse
	case m.Recorded && m.Address == node.Address && m.ClientURL == node.ClientURL:
		return ClientInUse
	}
	return MayAdd
}
