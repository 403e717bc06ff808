package publish

import (
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

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

// addressOf returns the address of a family in an endpoint; empty: none.
func addressOf(e protocol.Endpoint, f Family) string {
	for _, address := range []string{e.Address, e.Secondary} {
		if FamilyOf(address) == f {
			return address
		}
	}
	return ""
}
