package protocol

import "strings"

// Family is a family of IP addresses. An EndpointSlice contains one family only.
type Family int

// The families. The zero value: not set.
const (
	FamilyUnset Family = iota
	IPv4
	IPv6
)

// FamilyOf returns the family of an IP address.
func FamilyOf(address string) Family {
	switch {
	case address == "":
		return FamilyUnset
	case strings.Contains(address, ":"):
		return IPv6
	}
	return IPv4
}

// String is the addressType of an EndpointSlice.
func (f Family) String() string {
	switch f {
	case IPv4:
		return "IPv4"
	case IPv6:
		return "IPv6"
	case FamilyUnset:
	}
	return ""
}

// Endpoint is where clients of the Service kubernetes reach the kube-apiserver of a
// node, from the node's presence. The zero value: its sidecar does not take part
// (--kubernetes-service).
type Endpoint struct {
	Address   string // an IP; empty: the sidecar does not take part
	Secondary string // an IP of the other family; empty: none
	Port      int
	// Down: the kube-apiserver is not ready, according to --apiserver-readyz.
	Down bool
}

// TakesPart reports whether the sidecar of the node writes the Service.
func (e Endpoint) TakesPart() bool { return e.Address != "" }

// Of returns the address of a family; empty: none.
func (e Endpoint) Of(f Family) string {
	for _, address := range []string{e.Address, e.Secondary} {
		if FamilyOf(address) == f {
			return address
		}
	}
	return ""
}
