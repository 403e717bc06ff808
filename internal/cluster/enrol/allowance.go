package enrol

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/lockstep-dev/lockstep/internal/allowance"
)

// The share of a processor at the join port, besides Limits, for clients of other machines that
// showed no token or certificate: less than 3 %. A node that joins makes one connection a second at
// most.
const (
	commonShare = 0.02
	ownShare    = 0.0005
	ownPlaces   = 16
	// handshakePrice includes the certificate's files, which the server reads each time.
	handshakePrice = allowance.HandshakePrice + 700*time.Microsecond
)

func newPort(m *metrics) *allowance.Port {
	return allowance.NewPort(allowance.Config{
		Common: commonShare, Own: ownShare, Places: ownPlaces, Refused: func() { m.answered(closed) },
	})
}

// bounded returns the listener whose connections are served.
func (s *Server) bounded(l net.Listener) net.Listener {
	return s.port.Listener(listener{l, s.guard, func(c net.Conn) {
		s.metrics.answered(closed)
		if !allowance.Local(c) {
			s.port.Refuse(c)
		}
	}}, l)
}

type connKey struct{}

func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, allowance.Of(c))
}

// connOf returns the connection of a request; nil: its client is on this machine.
func connOf(r *http.Request) *allowance.Conn {
	c, _ := r.Context().Value(connKey{}).(*allowance.Conn)
	return c
}
