// Package allowance bounds how much of a processor clients without an identity may use at a
// port, whatever they send and however often they connect (docs/operations.md#strangers).
//
// Each step of such a client has a price in processor time: a connection, a TLS handshake, a
// read, a request. The clients of a port share one allowance, and each of the first addresses
// also gets a share of its own, which others cannot use up: health probes go on while others
// attack. When both are spent, open connections wait, and new ones are closed. An address that
// is refused again and again is held off for a while by a packet filter on the listening
// socket, so that not even its refusals cost anything here.
//
// Clients on this machine are not counted. Those that showed a valid certificate or token are
// not held up in that connection, and their address gets a larger share.
//
// decide.go and filter.go are pure. Port is the state of a port, with one mutex; it runs a
// timer while addresses are held off, and no goroutines.
package allowance

import (
	"net"
	"net/netip"
	"time"
)

// Prices of the steps of clients. They are above the time that a processor of 2020 needs, as
// measured by the case strangers of `make bench`.
const (
	connectionPrice = 80 * time.Microsecond
	readPrice       = 5 * time.Microsecond
	kilobytePrice   = 250 * time.Microsecond // of bytes that were read: frames of HTTP/2 are small
	// RequestPrice is the price of a request without the time that its handler uses.
	RequestPrice = 70 * time.Microsecond
	// HandshakePrice is the price of a TLS handshake without the signature.
	HandshakePrice = 300 * time.Microsecond
)

// Config sets the bounds of a port. A share is a part of one processor.
type Config struct {
	// Common is the share of all clients together.
	Common float64
	// Own is the share of each address with a place; Places is the number of places.
	Own    float64
	Places int
	// Identified is how many addresses whose clients showed a valid identity have a share of that
	// size at least, instead of a place. They divide Identified*Own; each gets ten times Own at most.
	Identified int
	// Refused is called after each connection that was closed; it must not wait. Nil: nothing.
	Refused func()
	// HeldOff is called with the number of addresses that are held off, after it changed from
	// or to zero. Nil: nothing.
	HeldOff func(addresses int)
}

// Of returns the connection below c, such as the one below TLS, which Port counts; nil: the
// client is on this machine, or was not counted. All methods of Conn may be called on nil.
func Of(c net.Conn) *Conn { return Below[*Conn](c) }

// Below returns the connection of a type at or below c; nil: there is none.
func Below[C net.Conn](c net.Conn) (found C) {
	for {
		if typed, is := c.(C); is {
			return typed
		}
		below, is := c.(interface{ NetConn() net.Conn })
		if !is {
			return found
		}
		c = below.NetConn()
	}
}

// Local reports whether the client of a connection is on this machine.
func Local(c net.Conn) bool {
	client, own := hostOf(c.RemoteAddr()), hostOf(c.LocalAddr())
	return client.IsLoopback() || client == own
}

// Network returns the address that counts as the client of a connection.
func Network(c net.Conn) netip.Addr { return network(hostOf(c.RemoteAddr())) }

// AddressOf returns the address that counts as the client at host:port; the zero address: it is
// none.
func AddressOf(hostPort string) netip.Addr { return network(HostOf(hostPort)) }

// HostOf returns the address at host:port; the zero address: it is none.
func HostOf(hostPort string) netip.Addr {
	parsed, _ := netip.ParseAddrPort(hostPort) // the zero value if it is none
	return parsed.Addr().Unmap().WithZone("")
}

func hostOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return HostOf(a.String())
}

// network returns the address that counts as one client: with IPv6, one machine uses as many
// addresses of a /64 as it likes.
func network(a netip.Addr) netip.Addr {
	if prefix, err := a.Prefix(64); err == nil && a.Is6() { //nolint:mnd // the size of a subnet
		return prefix.Addr()
	}
	return a
}
