package protocol

import "slices"

// ServicePart is an object of the Service kubernetes, with the decision about it.
type ServicePart struct {
	Known     bool // it was read, or it does not exist
	Addresses []string
	Kind      PublishKind
}

// MayLeave reports whether the address of a node whose gate is closed may still be about
// to leave the Service (docs/protocol.md#kubernetes-service). f and parts are the last
// observed ones: f may not contain the presence with the closed gate yet. An unread part
// may contain the address; without parts nothing was read.
func MayLeave(f Fleet, id NodeID, own Endpoint, parts []ServicePart) bool {
	serves := func(n ServiceNode) bool { return n.ID == id && n.Serves }
	if f.Revision == 0 || slices.ContainsFunc(ServiceNodes(f), serves) {
		return true
	}
	return len(parts) == 0 || slices.ContainsFunc(parts, func(p ServicePart) bool {
		return !p.Known || p.Kind == PublishWrite && slices.ContainsFunc(p.Addresses, func(address string) bool { return has(own, address) })
	})
}

func has(e Endpoint, address string) bool {
	return address != "" && (address == e.Address || address == e.Secondary)
}
