package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/httpapi/reviews"
	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
)

// Config configures a Server.
type Config struct {
	// Snapshot is the source of the answers; it is only read. Required.
	Snapshot *event.Value[Snapshot]
	// Log gets the messages for people: panics, and certificates that cannot be read. Required.
	Log *slog.Logger
	// Registerer gets the metrics lockstep_httpapi_*; nil: none.
	Registerer prometheus.Registerer
	// Metrics serves /metrics; nil: the path is not found.
	Metrics http.Handler
	// MemberMetrics returns the metrics of this node's etcd member, for /metrics/etcd; nil: it is
	// not found.
	MemberMetrics func(context.Context) ([]byte, error)
	// Profiling serves /debug/pprof.
	Profiling bool
	// OpenAPI is the text of openapi.yaml; empty: its path is not found.
	OpenAPI string
	// Build is shown by /version and /statusz.
	Build Build
	// Flags are shown by /flagz, in this order. They must contain no secret.
	Flags []Flag
	// TLS names the certificate files; the zero value: plain HTTP.
	TLS TLS
	// Stuck names the loops without progress, so that /livez fails; nil: nothing is watched. It is called at each
	// request, and must not wait.
	Stuck func() []string
	// History returns the journal, the newest entry last; nil: the path is not found. It may ask etcd, within a
	// short time, and answers without it.
	History func(context.Context) []history.Entry
	// Recording writes the flight recorder's recording, compressed with gzip; nil: the path is not found.
	Recording func(io.Writer) (int64, error)
	// FleetLock answers /v1/pre-reboot and /v1/steady-state; nil: the paths are not found.
	FleetLock FleetLock
	// CommandFollows is called when a stream of /status?watch&turn begins, which sidecar turn follows while it runs, and
	// what it returns when that ends; nil: neither.
	CommandFollows func() (ended func())
	// LocalOnly: clients on other machines may read only the health endpoints, unless TLS names a client CA.
	LocalOnly bool
	// Reviews decides about access beyond the health endpoints, in place of LocalOnly and of a client CA alone;
	// nil: those decide.
	Reviews *reviews.Reviewer
	// AlwaysAllowPaths need no review, besides the health endpoints. A path may end with an
	// asterisk.
	AlwaysAllowPaths []string
	// Hosts are the names of this server, in lower case, that a request over plain HTTP may contain besides
	// localhost and addresses; nil: any name.
	Hosts []string
}

// Build identifies this program.
type Build = buildinfo.Info

// Flag is one flag of the command line, as it is in force.
type Flag struct{ Name, Value string }

// TLS names PEM files. They are read again while the server runs, so a
// certificate can be replaced without a restart.
type TLS struct {
	CertFile, KeyFile string // both or none
	// ClientCAFile contains the authorities of client certificates: all endpoints except the health checks require
	// one. Empty: none does.
	ClientCAFile string
}

func (c Config) validate() error {
	switch {
	case c.Snapshot == nil:
		return errors.New("httpapi: Config.Snapshot is required")
	case c.Log == nil:
		return errors.New("httpapi: Config.Log is required")
	case (c.TLS.CertFile == "") != (c.TLS.KeyFile == ""):
		return errors.New("httpapi: TLS certificate and key must be set together")
	case c.TLS.ClientCAFile != "" && c.TLS.CertFile == "":
		return errors.New("httpapi: a client CA requires a TLS certificate")
	}
	return nil
}

// timeouts limit how long one client can occupy the server. No response takes long to render; a stream of
// /status?watch uses deadlines of its own, one for each write.
type timeouts struct {
	header, read, write, idle time.Duration
	streamWrite               time.Duration
	keepAlive                 time.Duration // between two comments on a stream
	shutdown                  time.Duration // for requests under way when Run ends
}

// maxHeaderBytes is ample for a probe with many ?exclude= and for a browser.
const maxHeaderBytes = 32 << 10

// Server is the HTTP API of one sidecar.
type Server struct {
	cfg        Config
	log        *slog.Logger
	metrics    *metrics
	certs      *certificates // nil: plain HTTP
	handler    http.Handler
	started    time.Time
	timeouts   timeouts
	port       *allowance.Port
	streams    streams
	rendered   rendering
	plainCheck atomic.Pointer[plainCheck]
	// Log lines about reviews, once a minute.
	busyReviews, silentReviews rate.Sometimes

	reading  chan struct{} // holds a token while the metrics of the etcd member are read
	stopping chan struct{} // closed when Run begins to stop: ends the streams
}

// New returns a server that does not listen yet. It reads the certificate files
// once, so that a wrong path is an error at start.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg:      cfg,
		log:      cfg.Log.With("worker", "httpapi"),
		metrics:  newMetrics(cfg.Registerer),
		started:  time.Now(),
		reading:  make(chan struct{}, 1),
		stopping: make(chan struct{}),
		timeouts: timeouts{
			header: 5 * time.Second, read: 10 * time.Second, write: 30 * time.Second, idle: 2 * time.Minute,
			streamWrite: 10 * time.Second, keepAlive: 15 * time.Second, shutdown: 3 * time.Second,
		},
		busyReviews: rate.Sometimes{Interval: refusalReminder}, silentReviews: rate.Sometimes{Interval: refusalReminder},
	}
	if cfg.TLS.CertFile != "" {
		s.certs = &certificates{files: cfg.TLS, log: s.log, metrics: s.metrics}
		if err := s.certs.load(); err != nil {
			return nil, err
		}
	}
	s.port = s.newPort()
	s.handler = occupied(s.quick(s.router()))
	return s, nil
}

// Handler returns the API without a listener, to be served by another server.
func (s *Server) Handler() http.Handler { return s.handler }

// Run serves on l, which it closes, until ctx ends. Then it waits a short time for requests in progress and
// returns nil. An error means that it could not continue to serve. A nil l: another server serves Handler; Run
// ends its streams when ctx ends. Run may be called once.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	if l == nil {
		<-ctx.Done()
		close(s.stopping)
		return nil
	}
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: s.timeouts.header,
		ReadTimeout:       s.timeouts.read,
		WriteTimeout:      s.timeouts.write,
		IdleTimeout:       s.timeouts.idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       connContext,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // handshakes of port scanners
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	served := make(chan error, 1)
	var reloads sync.WaitGroup
	go func() { served <- s.serve(server, s.bounded(l)) }()
	if s.certs != nil {
		reloads.Go(func() { s.certs.run(ctx) })
	}

	var err error
	select {
	case err = <-served:
		cancel()
		err = fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
		err = s.shutdown(ctx, server)
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
	}
	reloads.Wait()
	return err
}

func (s *Server) serve(server *http.Server, l net.Listener) error {
	if s.certs == nil {
		return server.Serve(l)
	}
	server.TLSConfig = s.certs.config()
	return server.ServeTLS(l, "", "")
}

// shutdown ends the streams, then waits for requests in progress. It closes the connections of requests that do
// not end in time: no response of this API is worth a delayed exit.
func (s *Server) shutdown(ctx context.Context, server *http.Server) error {
	close(s.stopping)
	// ctx is over already; the clean-up uses a limit of its own.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeouts.shutdown)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests cut off", "after", s.timeouts.shutdown)
		err = server.Close()
	}
	if err != nil {
		return fmt.Errorf("stop serving: %w", err)
	}
	return nil
}
