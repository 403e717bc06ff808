package httpapi

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/cputime"
	"github.com/lockstep-dev/lockstep/internal/metric"
)

// The shares of a processor for clients of other machines: with the refusals, less than 10 %
// (docs/operations.md#strangers). A place pays for the checks of docs/load-balancers.md over TLS: two a second, each with
// a new connection. An address whose client showed an identity has a larger share instead of a place.
const (
	commonShare     = 0.025
	ownShare        = 0.0025
	ownPlaces       = 16
	placesShare     = ownShare * ownPlaces
	checksPerSecond = 2
	// checkPrice is what one costs, with some reserve, besides the signature with the server's key.
	checkPrice = 1200 * time.Microsecond
)

// placesFor returns the share of a place, and how many there are. With a slow key, such as one of RSA, each check costs more.
func placesFor(signature time.Duration) (share float64, places int) {
	share = max(ownShare, checksPerSecond*(checkPrice+signature).Seconds())
	return share, max(1, int(placesShare/share))
}

// healthPrice is the price of the handler of a health check. What it costs is not measured: on a busy machine others
// decide that, and a load balancer must not pay for them.
const healthPrice = 40 * time.Microsecond

// shortURI bounds the URI of a request whose cost is not measured: to parse a long query costs milliseconds.
const shortURI = 128

// Reasons of refusals.
const (
	refusedConnections = "connections"
	refusedProcessor   = "processor"
	refusedLocal       = "local"
)

func (s *Server) newPort() *allowance.Port {
	reminder := rate.Sometimes{Interval: refusalReminder}
	signature := time.Duration(0)
	if s.certs != nil {
		signature = time.Duration(s.certs.signature.Load())
	}
	own, places := placesFor(signature) // a key of another kind later costs more or less than a place pays for
	return allowance.NewPort(allowance.Config{
		Common: commonShare, Own: own, Places: places, Identified: (places + 1) / 2, //nolint:mnd // half as many
		Refused: func() { s.metrics.refusedFor(refusedProcessor) },
		HeldOff: func(addresses int) {
			s.metrics.heldOff.Set(metric.Bool(addresses > 0))
			if addresses > 0 {
				reminder.Do(func() {
					s.log.Warn("clients without an identity use more of a processor than they may, and are held off", "addresses", addresses)
				})
			}
		},
	})
}

// bounded returns a listener that refuses connections above the bounds. Each is paid first: it may take the place of
// another.
func (s *Server) bounded(l net.Listener) net.Listener {
	return newLimitedListener(s.port.Listener(l, l), s.log, func(c net.Conn) {
		if allowance.Local(c) {
			s.metrics.refusedFor(refusedLocal)
			return
		}
		s.metrics.refusedFor(refusedConnections)
		s.port.Refuse(c)
	})
}

// connection is what the requests of a connection share. The zero value: another server serves Handler.
type connection struct {
	limited *limitedConn // nil: it is not counted
	local   *localConn   // nil: its client is not on this machine
	verdict *clientVerdict
}

type connectionKey struct{}

// connContext is the ConnContext of the server.
func connContext(ctx context.Context, c net.Conn) context.Context {
	of := connection{allowance.Below[*limitedConn](c), allowance.Below[*localConn](c), &clientVerdict{}}
	return context.WithValue(allowance.ConnContext(ctx, c), connectionKey{}, of)
}

func connectionOf(r *http.Request) connection {
	c, _ := r.Context().Value(connectionKey{}).(connection)
	return c
}

// identified ends the bounds of a request's connection: its client showed a valid identity.
func identified(r *http.Request) {
	allowance.OfRequest(r).Identify()
	connectionOf(r).limited.identify()
}

// withinAllowance delays a request until its client's allowance covers it, and counts its cost. The handler of a
// stream is not measured: it mostly waits.
func (s *Server) withinAllowance(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := allowance.OfRequest(r)
		if conn == nil {
			next.ServeHTTP(w, r)
			return
		}
		price, measured := allowance.RequestPrice, !fixedPrice(r)
		if !measured {
			price += healthPrice
		}
		if err := conn.Pay(r.Context(), price); err != nil {
			s.metrics.refusedFor(refusedProcessor)
			w.Header().Set("Connection", "close")
			s.problem(w, http.StatusTooManyRequests, "clients without an identity have used what they may use of a processor; try again later")
			return
		}
		if !measured || stays(r) {
			next.ServeHTTP(w, r)
			return
		}
		cost, _ := cputime.Of(func() { next.ServeHTTP(w, r) }) // not every system can measure it
		conn.Charge(cost)
	})
}

// fixedPrice reports whether a request is a health check with a short URI, whose client shows no certificate, which would
// have to be verified.
func fixedPrice(r *http.Request) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	health := name == "readyz" || name == "livez" || name == "healthz"
	return health && len(r.RequestURI) <= shortURI && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0)
}

// stays reports whether a request is for a stream, if its URI is short.
func stays(r *http.Request) bool {
	return len(r.RequestURI) <= shortURI && asked(r.URL.Query(), "watch")
}

// signatureCost measures the time of a signature with a key, which is most of a handshake: the fastest of some, since the
// machine may be busy.
func signatureCost(cert tls.Certificate) time.Duration {
	key, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		return 0
	}
	const times = 8
	var costs []time.Duration
	for range times {
		cost, err := cputime.Of(func() {
			_, _ = key.Sign(rand.Reader, make([]byte, crypto.SHA256.Size()), crypto.SHA256) // ed25519 wants another hash, and is fast
		})
		if err != nil {
			return 0
		}
		costs = append(costs, cost)
	}
	return slices.Min(costs)
}
