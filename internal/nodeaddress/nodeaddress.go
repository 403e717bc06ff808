// Package nodeaddress finds the IP address at which other nodes reach this one, and has the default
// address of the HTTP API.
package nodeaddress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// DefaultPort is the port of the HTTP API, and DefaultListen its address for this machine alone, if
// people choose no others.
const (
	DefaultPort   = "8086"
	DefaultListen = "127.0.0.1:" + DefaultPort
)

// Missing says why an address cannot be used on this machine now: the machine does not
// have it (yet). Empty: it has it. The address must have passed Malformed.
func Missing(address string) string {
	socket, err := net.ListenPacket("udp", net.JoinHostPort(address, "0"))
	if err != nil {
		return "is not an address of this machine; `ip address` lists those that it has"
	}
	_ = socket.Close() // nothing was sent
	return ""
}

// IsOwn reports whether an address belongs to an interface of this machine.
func IsOwn(ip net.IP) (bool, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	}), nil
}

// Malformed says why an address cannot be that of a node on any machine; empty: it can.
func Malformed(address string) string {
	ip, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return "must be an IP address"
	case ip.IsUnspecified() || ip.IsMulticast():
		return "must be an address at which other nodes reach this one"
	case ip.Zone() != "":
		return "must not be a link-local address with a zone"
	}
	return ""
}

// Find returns the wanted address if this machine has it, and the address of the default
// route if none is wanted. An error says what a machine that boots before its network still
// waits for: try again.
func Find(wanted string) (string, error) {
	if wanted != "" {
		if problem := Missing(wanted); problem != "" {
			return "", fmt.Errorf("%s %s", wanted, problem)
		}
		return wanted, nil
	}
	if address := defaultRoute(); address != "" {
		return address, nil
	}
	return "", errNoRoute
}

// errNoRoute is that no address follows from the routes of this machine.
var errNoRoute = errors.New("this machine has no default route: `ip route` lists the routes; --node-address sets an IP address at which other nodes reach it")

// defaultRoute returns the address from which this machine would send a packet to the
// internet; empty: there is none. It sends none.
func defaultRoute() string {
	// Addresses of documentation (RFC 5737, RFC 3849), which no network has.
	for _, far := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		conn, err := net.Dial("udp", far)
		if err != nil {
			continue
		}
		local, err := netip.ParseAddrPort(conn.LocalAddr().String())
		_ = conn.Close() // nothing was sent
		if err == nil && local.Addr().Zone() == "" {
			return local.Addr().String()
		}
	}
	return ""
}
