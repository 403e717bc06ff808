package publish

import (
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Part is an object of the Service kubernetes, with the decision about it.
type Part struct {
	Known     bool // it was read, or it does not exist
	Addresses []string
	Kind      Kind
}

// RemovalPending reports whether the address of a node whose gate is closed may still be about
// to leave the Service (docs/protocol-endpoints.md#kubernetes-service). f and parts are the last
// observed ones: f may not contain the presence with the closed gate yet. An unread part
// may contain the address; without parts nothing was read.
func RemovalPending(f protocol.Fleet, id protocol.NodeID, own protocol.Endpoint, parts []Part) bool {
	serves := func(n Node) bool { return n.ID == id && n.Serves }
	if f.Revision == 0 || slices.ContainsFunc(Nodes(f), serves) {
		return true
	}
	return len(parts) == 0 || slices.ContainsFunc(parts, func(p Part) bool {
		return !p.Known || p.Kind == Write && slices.ContainsFunc(p.Addresses, func(address string) bool { return has(own, address) })
	})
}

func has(e protocol.Endpoint, address string) bool {
	return address != "" && (address == e.Address || address == e.Secondary)
}
