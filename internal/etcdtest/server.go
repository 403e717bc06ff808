package etcdtest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// startTimeout bounds the time until a server serves. An idle machine needs a quarter
// of a second.
const startTimeout = 30 * time.Second

// A single member dials no peer, so these do not matter. They are part of the ID of
// its cluster.
const (
	peerHost = "127.0.0.1:2380"
	peerURL  = "http://" + peerHost
)

// Config contains the settings of a Server. The zero value is for a test.
type Config struct {
	Dir   string // data directory; empty: a temporary one that Close removes
	Addr  string // host:port for clients; empty: a free one on loopback
	Token string // of the cluster; another one gives another cluster ID. Empty: etcd's default
	// CertFile and KeyFile make clients use TLS. The server reads them for each
	// connection.
	CertFile, KeyFile string
	// ClientCAFile contains the authorities of the clients' certificates: each client needs
	// one, whose common name is the name of the user. Empty: clients need none.
	ClientCAFile string
	LogFile      string // etcd's own warnings and errors, appended; empty: none

	// Fsync makes the server write through to the disk, as in production. Without
	// it, data survives Stop and Restart but not a crash of the machine.
	Fsync bool

	// Heartbeat is the raft heartbeat; the election timeout is ten times as long.
	// Zero: 10 ms, so that a start takes a tenth of a second and a lease can live
	// for one second. The server raises a shorter lease to 15 heartbeats, rounded up
	// to full seconds: two with etcd's default of 100 ms.
	Heartbeat time.Duration
}

// Server is an etcd with one member. Its methods may be called from many
// goroutines.
type Server struct {
	cfg     Config
	ownsDir bool
	losses  losses

	mu      sync.Mutex  // mu guards the fields below; held while the server starts and stops
	etcd    *embed.Etcd // nil while the server does not run
	breaker *breaker    // of its connections
}

// Start starts an etcd and returns when it serves.
func Start(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg}
	if cfg.Heartbeat == 0 {
		s.cfg.Heartbeat = 10 * time.Millisecond
	}
	if cfg.Dir == "" {
		dir, err := os.MkdirTemp("", "etcdtest-")
		if err != nil {
			return nil, fmt.Errorf("start etcd: %w", err)
		}
		s.cfg.Dir, s.ownsDir = dir, true
	}
	if err := s.startFirst(); err != nil {
		return nil, errors.Join(err, s.removeDir())
	}
	return s, nil
}

// startFirst chooses an address if none is given. Another process can take it before
// the server listens there; startFirst then tries another one.
func (s *Server) startFirst() error {
	if s.cfg.Addr != "" {
		return s.Restart()
	}
	var err error
	for range 5 {
		if s.cfg.Addr, err = FreeAddr(); err != nil {
			return err
		}
		if err = s.Restart(); err == nil {
			return nil
		}
	}
	return err
}

// Addr returns the host:port at which clients reach the server. It stays the
// same across Stop and Restart.
func (s *Server) Addr() string { return s.cfg.Addr }

// Endpoints returns the endpoints for a client's configuration.
func (s *Server) Endpoints() []string { return []string{s.scheme() + "://" + s.cfg.Addr} }

func (s *Server) scheme() string {
	if s.cfg.CertFile != "" {
		return "https"
	}
	return "http"
}

// Restart starts the server again after Stop, with the same data at the same
// address. It does nothing while the server runs.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.etcd != nil {
		return nil
	}
	s.breaker = newBreaker()
	etcd, err := embed.StartEtcd(s.embedConfig())
	if err != nil {
		return fmt.Errorf("start etcd on %s: %w", s.cfg.Addr, err)
	}
	s.etcd = etcd
	if err := awaitReady(etcd); err != nil {
		s.stop()
		return fmt.Errorf("start etcd on %s: %w", s.cfg.Addr, err)
	}
	return nil
}

func awaitReady(etcd *embed.Etcd) error {
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-etcd.Server.ReadyNotify():
		return nil
	case err := <-etcd.Err():
		return err
	case <-etcd.Server.StopNotify():
		return errors.New("stopped before it was ready")
	case <-timeout.C:
		return fmt.Errorf("not ready after %s", startTimeout)
	}
}

// Stop ends the server. To its clients it looks like a crash: all connections break
// at once, open watches included. It returns when the server has ended, and does
// nothing if the server does not run.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

// stop needs mu.
func (s *Server) stop() {
	if s.etcd == nil {
		return
	}
	s.breaker.breakAll()
	s.etcd.Close()
	s.etcd = nil
	AwaitFree(s.cfg.Addr) // Restart listens there
}

// Close stops the server for good. It removes the data if Start chose the directory.
func (s *Server) Close() error {
	s.Stop()
	return s.removeDir()
}

func (s *Server) removeDir() error {
	if !s.ownsDir {
		return nil
	}
	if err := os.RemoveAll(s.cfg.Dir); err != nil {
		return fmt.Errorf("remove etcd data: %w", err)
	}
	return nil
}

func (s *Server) embedConfig() *embed.Config {
	peerListen := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	peer := url.URL{Scheme: "http", Host: peerHost}
	client := url.URL{Scheme: s.scheme(), Host: s.cfg.Addr}

	cfg := embed.NewConfig()
	cfg.Dir = s.cfg.Dir
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peerListen}, []url.URL{peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	if s.cfg.Token != "" {
		cfg.InitialClusterToken = s.cfg.Token
	}
	cfg.TickMs = uint(s.cfg.Heartbeat.Milliseconds())
	cfg.ElectionMs = 10 * cfg.TickMs
	cfg.UnsafeNoFsync = !s.cfg.Fsync
	cfg.EnableGRPCGateway = false
	cfg.GRPCAdditionalServerOptions = []grpc.ServerOption{s.losses.option(), s.losses.unary()}
	if s.cfg.CertFile == "" {
		cfg.GRPCAdditionalServerOptions = append(cfg.GRPCAdditionalServerOptions, s.breaker.option())
	}
	cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = s.cfg.CertFile, s.cfg.KeyFile
	cfg.ClientTLSInfo.TrustedCAFile, cfg.ClientTLSInfo.ClientCertAuth = s.cfg.ClientCAFile, s.cfg.ClientCAFile != ""
	if s.cfg.LogFile == "" {
		cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	} else {
		cfg.LogLevel, cfg.LogOutputs = "warn", []string{s.cfg.LogFile}
	}
	return cfg
}
