package enrol

import (
	"net"
	"time"

	"github.com/lockstep-dev/lockstep/internal/allowance"
)

// The share of a processor at the join port, besides Limits, for clients of other machines that
// showed no token or certificate: less than 4 %. A node that joins makes one connection a second at
// most.
const (
	commonShare = 0.02
	ownShare    = 0.0005
	ownPlaces   = 16
	// identified addresses divide as many shares.
	identified = 20
	// handshakePrice includes the certificate's files, which the server reads each time.
	handshakePrice = allowance.HandshakePrice + 700*time.Microsecond
)

func newPort(m *metrics) *allowance.Port {
	return allowance.NewPort(allowance.Config{
		Common: commonShare, Own: ownShare, Places: ownPlaces, Identified: identified, Refused: func() { m.answered(closed) },
	})
}

// bounded returns the listener whose connections are served. It closes those that come too often before their TLS
// handshake.
func (s *Server) bounded(l net.Listener) net.Listener {
	return s.port.Listener(allowance.Counted(l, func(c net.Conn) (leave func(), ok bool) {
		addr := allowance.Network(c)
		if s.guard.mayConnect(addr) {
			return func() { s.guard.closed(addr) }, true
		}
		s.metrics.answered(closed)
		if !allowance.Local(c) {
			s.port.Refuse(c)
		}
		return nil, false
	}), l)
}
