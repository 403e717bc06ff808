package role

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/role/service"
	"github.com/lockstep-dev/lockstep/status"
)

// ServerConfig is what a Server needs. All fields are required.
type ServerConfig struct {
	Node    protocol.NodeID
	First   protocol.Roles // of a record that this sidecar creates
	Release string         // of this sidecar
	Fleet   *event.Value[protocol.Fleet]

	// Dir is the directory of the services, which was loaded as Services; empty: there
	// are none.
	Dir      string
	Services []service.Service
	// Variables are the values in services. Without EtcdServers they are not known yet.
	Variables *event.Value[service.Variables]

	// File is where the roles are kept; empty: nowhere. Hold returns when no other
	// sidecar uses the directory of the file.
	File string
	Hold func(context.Context) error

	Shown         *event.Value[status.Verdict] // of the gate, as /readyz shows it
	Leads         *event.Value[bool]           // this node may still have the leader's key
	ShutdownDelay time.Duration
	Log           *slog.Logger // without a worker, which each part adds
}

// Server runs what follows from the roles of this node.
type Server struct {
	cfg        ServerConfig
	disk       *Disk
	fetcher    *Fetcher
	supervised *Supervised
	kubernetes *Kubernetes
	others     []*follower
	loaded     *event.Value[[]service.Service]
	problem    *event.Value[string]
	phase      *event.Value[phase]
}

// phase is how far Run is.
type phase int

const (
	phaseWaits phase = iota // for the directory
	phaseRuns
	phaseEnded
)

// NewServer returns a server that has started nothing.
func NewServer(cfg ServerConfig) *Server {
	s := &Server{
		cfg: cfg, loaded: event.New(cfg.Services), problem: event.New(""), phase: event.New(phaseWaits),
	}
	if cfg.File != "" {
		s.disk = NewDisk(cfg.File)
	}
	s.fetcher = NewFetcher(FetcherConfig{
		Node: cfg.Node, Fleet: cfg.Fleet, First: cfg.First, Disk: s.disk, Log: cfg.Log.With("worker", "roles"),
	})
	log := cfg.Log.With("worker", "services")
	s.supervised = NewSupervised(SupervisedConfig{Loaded: s.loaded, Variables: cfg.Variables, Log: log})
	s.kubernetes = NewKubernetes(KubernetesConfig{
		Services: s.supervised.Of(protocol.RoleController), Roles: s.fetcher.Local(), Disk: s.disk, Release: cfg.Release,
		Shown: cfg.Shown, Leads: cfg.Leads, ShutdownDelay: cfg.ShutdownDelay, Log: log,
	})
	for _, name := range []string{protocol.RoleWorker, protocol.RoleConsensus} {
		s.others = append(s.others, newFollower(name, s.supervised.Of(name), s.fetcher.Local(), log))
	}
	return s
}

// Local follows the roles.
func (s *Server) Local() *event.Value[Local] { return s.fetcher.Local() }

// Facts follows what the registrar has to know of the services.
func (s *Server) Facts() *event.Value[protocol.ServiceFacts] { return s.kubernetes.Facts() }

// Withheld follows why the services keep the gate closed; empty: they do not.
func (s *Server) Withheld() *event.Value[string] { return s.kubernetes.Withheld() }

// Loaded follows the services of the directory.
func (s *Server) Loaded() *event.Value[[]service.Service] { return s.loaded }

// State follows what is known of the services that were started.
func (s *Server) State() *event.Value[service.State] { return s.supervised.State() }

// Problem follows why the services directory as it is now was rejected; empty: it was
// not.
func (s *Server) Problem() *event.Value[string] { return s.problem }

// Run runs the workers until ctx ends, and returns ctx's error. What still runs of the
// services then is stopped.
func (s *Server) Run(ctx context.Context) error {
	if err := s.cfg.Hold(ctx); err != nil {
		return err
	}
	if err := s.disk.Load(); err != nil {
		return fmt.Errorf("roles of this node: %w", err)
	}
	s.phase.Set(phaseRuns)
	defer s.phase.Set(phaseEnded)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.fetcher.Run(ctx) })
	group.Go(func() error { return s.supervised.Run(ctx) })
	group.Go(func() error { return s.kubernetes.Run(ctx) })
	for _, f := range s.others {
		group.Go(func() error { return f.run(ctx) })
	}
	if s.cfg.Dir != "" {
		group.Go(func() error { return service.Watch(ctx, s.cfg.Dir, serviceInterval, s.reloaded) })
	}
	return group.Wait()
}

// serviceInterval is the pause between two reads of the services directory.
const serviceInterval = 2 * time.Second

// reloaded puts services into use, or reports why the last valid ones stay in use.
func (s *Server) reloaded(services []service.Service, err error) {
	problem := ""
	if err != nil {
		problem = err.Error()
	} else {
		s.loaded.Set(services)
	}
	if problem == s.problem.Get() {
		return
	}
	s.problem.Set(problem)
	if problem != "" {
		s.cfg.Log.Error("services rejected, the last valid ones stay in use", "err", err)
		return
	}
	s.cfg.Log.Info("services are valid again")
}

// Stop stops the services in order, and returns when they have ended. Nothing starts
// after it. It gives up after their stop timeouts.
func (s *Server) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ShutdownDelay+s.supervised.StopLimit())
	defer cancel()
	s.kubernetes.stopping.Set(true)
	// A Run that still waits starts nothing from here on.
	if s.phase.Get() != phaseRuns {
		return nil
	}
	if err := s.kubernetes.Stop(ctx); err != nil {
		return err
	}
	for _, f := range s.others {
		if err := f.stop(ctx); err != nil {
			return err
		}
	}
	return nil
}
