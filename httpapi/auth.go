package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/httpapi/reviews"
	"github.com/lockstep-dev/lockstep/internal/allowance"
)

// With Config.Reviews, the kube-apiserver decides about access: the client shows a token, or a certificate of the
// client CA, and needs the right to the path and the verb. The health endpoints cause no review.

// reviewed returns why a client may not send a request, as problemOf does.
func (s *Server) reviewed(r *http.Request) (code int, why string) {
	user, code, why := s.userOf(r)
	if code != 0 {
		return code, why
	}
	verb := strings.ToLower(r.Method)
	allowed, err := s.cfg.Reviews.Authorize(r.Context(), user, reviews.Request{From: originOf(r), Verb: verb, Path: r.URL.Path})
	switch {
	case err != nil:
		return s.unreviewed(r, err)
	case !allowed:
		return http.StatusForbidden, fmt.Sprintf("the user %q may not %s the path %s: give it a ClusterRole with nonResourceURLs [%q] and verbs [%s]",
			clip(user.Name, maxHost), verb, clip(r.URL.Path, maxHost), clip(r.URL.Path, maxHost), verb)
	}
	return 0, ""
}

// userOf identifies the client: by its certificate, or else by its token.
func (s *Server) userOf(r *http.Request) (user reviews.User, code int, why string) {
	if s.cfg.TLS.ClientCAFile != "" && s.certs.verified(r) {
		subject := r.TLS.PeerCertificates[0].Subject
		return reviews.User{Name: subject.CommonName, Groups: append(slices.Clone(subject.Organization), authenticated)}, 0, ""
	}
	token, shown := bearer(r)
	if !shown || !s.cfg.Reviews.TakesTokens() {
		return user, http.StatusUnauthorized, "credentials are required, except for the health endpoints: " + s.credentials()
	}
	user, valid, err := s.cfg.Reviews.Authenticate(r.Context(), originOf(r), token)
	switch {
	case err != nil:
		code, why = s.unreviewed(r, err)
		return user, code, why
	case !valid:
		return user, http.StatusUnauthorized, "the kube-apiserver rejects the token: it has expired, or is of another cluster"
	}
	return user, 0, ""
}

// unreviewed returns the answer to a client that was not reviewed. It is not known who that is, so the log has
// the reason, and the client does not get it.
func (s *Server) unreviewed(r *http.Request, err error) (code int, why string) {
	if errors.Is(err, reviews.ErrBusy) {
		s.busyReviews.Do(func() {
			s.log.Warn("clients with unknown credentials ask too often, and some are not reviewed", "client", r.RemoteAddr)
		})
		return http.StatusTooManyRequests, "too many clients show credentials that this sidecar does not know yet; try again later"
	}
	if r.Context().Err() == nil { // the client still waits
		s.silentReviews.Do(func() {
			s.log.Warn("the kube-apiserver that reviews clients gives no answer", "err", err)
		})
	}
	return http.StatusServiceUnavailable, "the kube-apiserver that decides who may read this gives no answer; the log of this sidecar has the reason"
}

// originOf returns the address that counts as the origin of a request. This machine is one.
func originOf(r *http.Request) netip.Addr {
	if isLocal(r) {
		return netip.IPv6Loopback()
	}
	return allowance.AddressOf(r.RemoteAddr)
}

// authenticated is the group of all users whose name is known.
const authenticated = "system:authenticated"

// credentials describes the credentials that this server accepts.
func (s *Server) credentials() string {
	var out []string
	if s.cfg.Reviews.TakesTokens() {
		out = append(out, "a token of a ServiceAccount, in the header Authorization: Bearer")
	}
	if s.cfg.TLS.ClientCAFile != "" {
		out = append(out, fmt.Sprintf("a client certificate of --client-ca-file, with a chain of at most %d", maxChain))
	}
	return strings.Join(out, "; or ")
}

// bearer returns the token of a request.
func bearer(r *http.Request) (token string, shown bool) {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(kind, "Bearer") && token != ""
}

// alwaysAllowed reports whether a path needs neither credentials nor a review. A pattern may end
// with an asterisk.
func (s *Server) alwaysAllowed(path string) bool {
	return slices.ContainsFunc(s.cfg.AlwaysAllowPaths, func(pattern string) bool {
		start, isPrefix := strings.CutSuffix(pattern, "*")
		return path == pattern || isPrefix && strings.HasPrefix(path, start)
	})
}
