package httpapi

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Who may read what. The health endpoints are open to all clients. All others tell
// much about a control plane, and have three checks, each of which New may leave out.

// problemOf returns why a request may not read more than the health endpoints, with
// the status code of the response; 0: it may. A stream asks again before each event.
func (s *Server) problemOf(r *http.Request) (code int, why string) {
	switch {
	case !s.knowsHost(r):
		return http.StatusForbidden, fmt.Sprintf(
			"the header Host has %q, which is no name of this sidecar: use an IP address, or start it with --advertise-url=http://%s",
			clip(r.Host, maxHost), clip(r.Host, maxHost))
	case s.cfg.TLS.ClientCAFile != "":
		if s.certs.verified(r) {
			return 0, ""
		}
		return http.StatusUnauthorized, "a valid client certificate is required (--client-ca-file), except for the health endpoints"
	case s.cfg.LocalOnly && !isLocal(r):
		return http.StatusForbidden, "clients on other machines may read only the health endpoints: " +
			"start the sidecar with --client-ca-file and use a client certificate, or allow all clients with --anonymous-status"
	}
	return 0, ""
}

const maxHost = 100

// requireAccess rejects requests that may read only the health endpoints.
func (s *Server) requireAccess(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code, why := s.problemOf(r); code != 0 {
			s.problem(w, code, why)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// knowsHost reports whether a request has a name of this sidecar, or an address. A page
// of another site can point its own name to a loopback address, and would then read the
// API with the browser of a person on this machine. With TLS it cannot: it has no
// certificate for that name.
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
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	client := remote.Addr().Unmap().WithZone("")
	if client.IsLoopback() {
		return true
	}
	own, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if own == nil {
		return false
	}
	local, err := netip.ParseAddrPort(own.String())
	return err == nil && local.Addr().Unmap().WithZone("") == client
}

// verified reports whether a client has a certificate of the client CA as it is now. The
// handshake only asks for one, so that a health probe with another certificate works,
// and so that a CA that was removed ends the access of open connections too.
func (c *certificates) verified(r *http.Request) bool {
	if c == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	intermediates := x509.NewCertPool()
	for _, cert := range r.TLS.PeerCertificates[1:] {
		intermediates.AddCert(cert)
	}
	_, err := r.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: c.current.Load().ClientCAs, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}
