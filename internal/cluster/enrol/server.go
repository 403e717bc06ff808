package enrol

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/report"
)

// Config configures a Server. Client, PKI and Log are required.
type Config struct {
	Client *etcd.Client
	// PKI is the directory with the cluster's CA and this node's certificate. They are
	// read again for each connection.
	PKI string

	Limits     Limits // zero: the usual ones
	Log        *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
	// Now is the clock that decides whether a token is expired. Nil: time.Now.
	Now func() time.Time
	// After is called after each step of an answer, with its name, so that tests can
	// end the process there. Nil: nothing.
	After func(step string)
}

const (
	maxBody = 16 << 10
	// The time limits for a client's handshake and header, for its body, and for an
	// answer: etcd may need to elect a leader first.
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	joinTimeout   = 20 * time.Second
	writeTimeout  = joinTimeout + 5*time.Second
	stopTimeout   = 2 * time.Second
)

// Server answers the joins of other nodes. It is an http.Handler.
type Server struct {
	cfg      Config
	guard    *guard
	port     *allowance.Port
	metrics  *metrics
	warnings *rate.Limiter // of refused requests in the log
}

// NewServer returns a server that does not listen yet.
func NewServer(cfg Config) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = func(string) {}
	}
	m := newMetrics(cfg.Registerer)
	return &Server{
		cfg: cfg, guard: newGuard(cmp.Or(cfg.Limits, defaultLimits)), port: newPort(m), metrics: m,
		warnings: rate.NewLimiter(rate.Every(time.Second), 10), //nolint:mnd // one a second is enough for people
	}
}

// Run answers joins until ctx ends. It closes the listener.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		MaxHeaderBytes: 8 << 10, //nolint:mnd // a client sends a few hundred bytes
		ConnContext:    allowance.ConnContext,
		ErrorLog:       log.New(io.Discard, "", 0), // failed handshakes are from strangers
		TLSNextProto:   map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	server.SetKeepAlivesEnabled(false)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(tls.NewListener(s.bounded(l), s.tlsConfig())) }()
	select {
	case err := <-ended:
		return fmt.Errorf("answer joins: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if server.Shutdown(stopping) != nil {
		_ = server.Close() // a join that was interrupted is run again
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answer joins: %w", err)
	}
	return ctx.Err()
}

func (s *Server) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// A node that joins does not have a certificate yet.
		ClientAuth:            tls.RequestClientCert,
		VerifyPeerCertificate: s.checkClient,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if err := allowance.Of(hello.Conn).Pay(hello.Context(), handshakePrice); err != nil {
				return nil, err
			}
			return servingCertificate(s.cfg.PKI)
		},
	}
}

// servingCertificate returns this node's certificate with the CA in its chain: the
// joining node compares the CA with the hash in its token.
func servingCertificate(dir string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, pki.NodeCertFile), filepath.Join(dir, pki.NodeKeyFile))
	if err != nil {
		return nil, err
	}
	authority, err := pki.ReadAuthority(dir)
	if err != nil {
		return nil, err
	}
	pair.Certificate = append(pair.Certificate[:1:1], authority.Raw)
	return &pair, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	conn := allowance.OfRequest(r)
	if conn.Pay(r.Context(), allowance.RequestPrice) != nil || !s.guard.mayRequest(allowance.AddressOf(r.RemoteAddr)) {
		const why = "too many requests; try again later"
		s.refuse(w, r, &refusal{limited, http.StatusTooManyRequests, why}, why)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), joinTimeout)
	defer cancel()
	respond := s.answer
	if r.URL.Path == PathAuthority {
		respond = s.giveAuthority
	}
	out, err := respond(ctx, w, r)
	if err != nil {
		refused := &refusal{}
		if !errors.As(err, &refused) {
			refused = &refusal{unavailable, http.StatusServiceUnavailable, noAnswer}
		}
		s.refuse(w, r, refused, err.Error())
		return
	}
	conn.Identify()
	if r.URL.Path == Path {
		s.metrics.answered(joined)
	}
	h.Set("Content-Type", "application/json")
	_, _ = w.Write(out) // a node that did not get it asks again
	s.cfg.After("answer")
}

// retryAfter is when a client may try again, in seconds, after a refusal that can
// disappear by itself.
const retryAfter = 1

// maxLogged is how many bytes of a refusal go to the log: a stranger may be their author, such as of
// the name of an unknown field.
const maxLogged = 300

// noAnswer is the answer to a client when the fault is here.
const noAnswer = "this member does not reach a majority of the cluster, or has another problem: its log has the reason"

// refuse answers a request, and logs why.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, because *refusal, why string) {
	s.metrics.answered(because.result)
	if s.warnings.Allow() {
		s.cfg.Log.Warn("a join was refused", "client", r.RemoteAddr, "status", because.status,
			"reason", strings.ToValidUTF8(why[:min(len(why), maxLogged)], ""))
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	switch because.status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodPost)
	}
	body, err := json.Marshal(report.Problem{
		Type: "about:blank", Title: http.StatusText(because.status), Status: because.status, Detail: because.detail,
	})
	if err != nil {
		panic(err) // strings and a number always marshal
	}
	w.WriteHeader(because.status)
	_, _ = w.Write(append(body, '\n'))
}

// refusal is why a request is refused.
type refusal struct {
	result result
	status int
	detail string
}

func (r *refusal) Error() string { return r.detail }

func invalidf(format string, args ...any) error {
	return &refusal{invalid, http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// parse returns the request, or why it makes no sense.
func parse(w http.ResponseWriter, r *http.Request) (request, *x509.CertificateRequest, error) {
	var in request
	switch {
	case r.URL.Path != Path:
		return in, nil, &refusal{invalid, http.StatusNotFound, "this port only answers POST " + Path}
	case r.Method != http.MethodPost:
		return in, nil, &refusal{invalid, http.StatusMethodNotAllowed, "this port only answers POST " + Path}
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&in)
	if err == nil && decoder.More() {
		err = errors.New("more than one JSON value")
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return in, nil, &refusal{invalid, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", maxBody)}
	}
	if err != nil {
		return in, nil, invalidf("the body is not a join request: %v; is the joining sidecar of another version?", err)
	}
	csr, err := pki.ParseRequest(in.CertificateRequest)
	if err != nil {
		return in, nil, invalidf("certificateRequest: %v", err)
	}
	return in, csr, nil
}
