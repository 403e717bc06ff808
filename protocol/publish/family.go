package publish

import (
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Family is a family of IP addresses, as the addressType of an EndpointSlice, which contains one family only.
type Family string

// The families.
const (
	FamilyUnset Family = ""
	IPv4        Family = "IPv4"
	IPv6        Family = "IPv6"
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

// addressOf returns the address of a family in an endpoint; empty: none.
func addressOf(e protocol.Endpoint, f Family) string {
	for _, address := range []string{e.Address, e.Secondary} {
		if FamilyOf(address) == f {
			return address
		}
	}
	return ""
}
