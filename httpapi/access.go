package httpapi

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/internal/allowance"
)

// Access: the health endpoints are open to all clients. All others reveal much about a control plane, and pass
// three checks, each of which New may leave out.

// problemOf returns the reason why a request may read only the health endpoints, with the status code of the
// response; 0: it may read the rest too. A stream asks again before each event.
func (s *Server) problemOf(r *http.Request) (code int, why string) {
	switch {
	case !s.knowsHost(r):
		return http.StatusForbidden, fmt.Sprintf(
			"the header Host has %q, which is no name of this sidecar: use an IP address, or start it with --advertise-url=http://%s",
			clip(r.Host, maxHost), clip(r.Host, maxHost))
	case s.cfg.Reviews != nil:
		if s.alwaysAllowed(r.URL.Path) {
			return 0, ""
		}
		if code, why = s.reviewed(r); code == 0 {
			identified(r)
		}
		return code, why
	case s.cfg.TLS.ClientCAFile != "":
		if s.certs.verified(r) {
			identified(r)
			return 0, ""
		}
		return http.StatusUnauthorized, fmt.Sprintf("a valid client certificate, with a chain of at most %d, is required (--client-ca-file), except for the health endpoints", maxChain)
	case s.cfg.LocalOnly && !isLocal(r):
		return http.StatusForbidden, "clients on other machines may read only the health endpoints: " +
			"start the sidecar with --client-ca-file and use a client certificate, or allow all clients with --anonymous-status"
	}
	return 0, ""
}

// mayReadReasons reports whether a client may read the reasons of failing health checks: a client on this machine
// may, and a client that may read everything else. The messages contain paths, addresses of etcd, and texts of
// users; other clients get a single word.
func (s *Server) mayReadReasons(r *http.Request) bool {
	if isLocal(r) && s.knowsHost(r) {
		return true
	}
	if s.cfg.Reviews != nil {
		return false // a health check causes no review
	}
	code, _ := s.problemOf(r)
	return code == 0
}

const maxHost = 100

// requireAccess rejects requests that may read only the health endpoints.
func (s *Server) requireAccess(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code, why := s.problemOf(r); code != 0 {
			if code == http.StatusUnauthorized && s.cfg.Reviews != nil {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			s.problem(w, code, why)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// knowsHost reports whether a request names this sidecar, or an address. The page of another site can point its
// own name to a loopback address, and could then read the API with the browser of a person on this machine. With
// TLS it cannot: no certificate for that name exists.
func (s *Server) knowsHost(r *http.Request) bool {
	if r.TLS != nil || s.cfg.Hosts == nil {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return host == "" || host == "localhost" || slices.Contains(s.cfg.Hosts, host)
}

// isLocal reports whether the client is on this machine.
func isLocal(r *http.Request) bool {
	client := allowance.HostOf(r.RemoteAddr)
	own, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return client.IsLoopback() || client.IsValid() && own != nil && allowance.HostOf(own.String()) == client
}

// maxChain is how many certificates a client may show. Each one of a longer chain can cost a
// signature check of several milliseconds, before anything is known about the client.
const maxChain = 4

// verdictLife is how long a verdict on a client's certificates is used again at most.
const verdictLife = time.Minute

// clientVerdict is the verdict on the certificates of one connection, shared by all its requests.
type clientVerdict struct {
	// mu guards the fields below. It is held during a check, so that simultaneous requests of a connection cause
	// one check together.
	mu     sync.Mutex
	config *tls.Config // with the client CA of the check; nil: no check yet
	until  time.Time
	valid  bool
}

// verified reports whether a client shows a certificate of the present client CA. The handshake only asks for one,
// so that a health probe with another certificate works, and so that removing a CA ends the access of open
// connections too. Certificates are checked once for a connection, and again after verdictLife, or when the CA
// changed.
func (c *certificates) verified(r *http.Request) bool {
	if c == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || len(r.TLS.PeerCertificates) > maxChain {
		return false
	}
	config, now := c.current.Load(), time.Now()
	shared := connectionOf(r).verdict
	if shared == nil {
		valid, _ := verifyClient(config, r.TLS.PeerCertificates, now)
		return valid
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.config != config || !now.Before(shared.until) {
		shared.config = config
		shared.valid, shared.until = verifyClient(config, r.TLS.PeerCertificates, now)
		c.checks.Add(1)
	}
	return shared.valid
}

// verifyClient returns the verdict on a chain, and until when it may be used: no longer than each of its
// certificates is valid.
func verifyClient(config *tls.Config, chain []*x509.Certificate, now time.Time) (valid bool, until time.Time) {
	intermediates, until := x509.NewCertPool(), now.Add(verdictLife)
	for _, cert := range chain[1:] {
		intermediates.AddCert(cert)
	}
	for _, cert := range chain {
		if cert.NotAfter.After(now) && cert.NotAfter.Before(until) {
			until = cert.NotAfter
		}
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: config.ClientCAs, Intermediates: intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil, until
}
