package role

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/role/service"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/supervise"
)

// ServerConfig is what a Server needs. All fields are required, unless they say otherwise.
type ServerConfig struct {
	Node    protocol.NodeID
	First   protocol.Roles // of a record that this sidecar creates
	Release string         // of this sidecar

	// Registrar and Gate are complete except for what the server gives them: the facts
	// about services, and the registration.
	Registrar fleet.RegistrarConfig
	Gate      status.GateConfig
	// Presence, Shown and Election are the workers that keep the presence, publish in it
	// what gate and election are, and take part in the election. Any error of Election
	// but that of its context itself ends the node.
	Presence, Shown, Election supervise.Worker
	// Enter returns a worker that starts when the cluster of this node is reached.
	Enter func(supervise.Worker) supervise.Worker

	// Dir is the directory of the services, which was loaded as Services; empty: there
	// are none.
	Dir      string
	Services []service.Service
	// Variables are the values in services. Without EtcdServers they are not known yet.
	Variables *event.Value[service.Variables]
	// Turn is the turn that this node has for services that have changed.
	Turn *event.Value[Turn]

	// File is where the roles are kept; empty: nowhere. Hold returns when no other
	// sidecar uses the directory of the file.
	File string
	Hold func(context.Context) error

	// Displayed is the verdict of the gate, as /readyz shows it.
	Displayed *event.Value[status.Verdict]
	// Leads is whether this node may still have the leader's key.
	Leads *event.Value[bool]
	// CloseGate closes the gate for good, and returns when /readyz shows it. failure is
	// why the node stops; nil: it was asked to.
	CloseGate func(ctx context.Context, failure error)
	// Published reports whether the address of this node may still leave the Service
	// kubernetes. The channel is closed when that may have changed.
	Published func() (published bool, changed <-chan struct{})
	// AwaitLeaving returns when the record may be deleted or has to stay, and Leave acts
	// on that (docs/protocol.md#ephemeral).
	AwaitLeaving func(ctx context.Context, stopped time.Time) protocol.LeaveFacts
	Leave        func(context.Context, protocol.LeaveFacts)

	// Member is this node's member of etcd. nil: etcd runs elsewhere.
	Member Member

	ShutdownDelay time.Duration
	Supervisor    *supervise.Supervisor
	Log           *slog.Logger // without a worker, which each part adds
}

// Server runs a node: what follows from its roles, and what makes it a part of the
// fleet. A node without services, or without an etcd member of its own, takes the same
// path.
type Server struct {
	cfg        ServerConfig
	disk       *Disk
	fetcher    *Fetcher
	supervised *Supervised
	kubernetes *Kubernetes
	// controlPlane is nil with an etcd that runs elsewhere.
	controlPlane *ControlPlane
	others       []*follower
	registrar    *fleet.Registrar
	gate         *status.Gate
	loaded       *event.Value[[]service.Service]
	found        *event.Value[[]service.Service] // the last valid ones of the directory
	pending      *event.Value[string]
	problem      *event.Value[string]
	phase        *event.Value[phase]
}

// phase is how far the workers of the roles are.
type phase int

const (
	phaseWaits phase = iota // for the directory
	phaseRuns
	phaseEnded
)

// NewServer returns a server that has started nothing.
func NewServer(cfg ServerConfig) *Server {
	s := &Server{
		cfg: cfg, loaded: event.New(cfg.Services), found: event.New(cfg.Services), pending: event.New(""),
		problem: event.New(""), phase: event.New(phaseWaits),
	}
	if cfg.File != "" {
		s.disk = NewDisk(cfg.File)
	}
	s.fetcher = NewFetcher(FetcherConfig{
		Node: cfg.Node, Fleet: cfg.Registrar.Fleet, First: cfg.First, Disk: s.disk, Log: cfg.Log.With("worker", "roles"),
	})
	log := cfg.Log.With("worker", "services")
	s.supervised = NewSupervised(SupervisedConfig{Loaded: s.loaded, Variables: cfg.Variables, Disk: s.disk, Log: log})
	s.kubernetes = NewKubernetes(KubernetesConfig{
		Services: s.supervised.Of(protocol.RoleController), Roles: s.fetcher.Local(), Disk: s.disk,
		Reads: cfg.Dir != "", Release: cfg.Release,
		Presence: held(cfg.Registrar.Presence), Shown: cfg.Displayed, Leads: cfg.Leads, Published: cfg.Published,
		ShutdownDelay: cfg.ShutdownDelay, Log: log,
	})
	for _, name := range []string{protocol.RoleWorker, protocol.RoleConsensus} {
		s.others = append(s.others, newFollower(name, s.supervised.Of(name), s.fetcher.Local(), log))
	}
	if cfg.Member != nil {
		s.controlPlane = NewControlPlane(ControlPlaneConfig{
			Member: cfg.Member, Roles: s.fetcher.Local(), Log: cfg.Log.With("worker", "control-plane"),
		})
	}
	cfg.Registrar.Services, cfg.Registrar.First = s.kubernetes.Facts(), s.fetcher.First
	s.registrar = fleet.NewRegistrar(cfg.Registrar)
	cfg.Gate.Registration, cfg.Gate.Withheld = s.registrar.Registration(), s.kubernetes.Withheld()
	s.gate = status.NewGate(cfg.Gate)
	return s
}

// held returns a function that reports whether a value is not the zero one.
func held[T comparable](v *event.Value[T]) func() (bool, <-chan struct{}) {
	return func() (bool, <-chan struct{}) {
		var none T
		now, changed := v.Load()
		return now != none, changed
	}
}

// Withheld follows why the services of this node keep its gate closed; empty: they do not.
func (s *Server) Withheld() *event.Value[string] { return s.kubernetes.Withheld() }

// whileServing returns a worker that runs another one while the services of this node are
// ready, or fail by themselves. A node whose services have not started yet, or stop, takes
// no part in the election: it could not do the work.
func (s *Server) whileServing(run supervise.Worker) supervise.Worker {
	return func(ctx context.Context) error {
		for {
			withheld, changed := s.kubernetes.Withheld().Load()
			if withheld != "" {
				if !event.Wait(ctx, changed) {
					return ctx.Err()
				}
				continue
			}
			if again, err := s.untilWithheld(ctx, run); !again {
				return err
			}
		}
	}
}

// errWithheld ends what runs only with services that are ready.
var errWithheld = errors.New("the services of this node are not ready")

// untilWithheld runs a worker. again: it has ended because the services stop, and for no other
// reason. An error of its own counts although the services stop: election.ErrJobStuck says that a
// job may still write to the API, so that nothing may run beside it.
func (s *Server) untilWithheld(ctx context.Context, run supervise.Worker) (again bool, err error) {
	limited, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer end(nil)
	watching.Go(func() { // ends with limited
		for {
			withheld, changed := s.kubernetes.Withheld().Load()
			if withheld != "" {
				end(errWithheld)
				return
			}
			if !event.Wait(limited, changed) {
				return
			}
		}
	})
	err = run(limited)
	return ctx.Err() == nil && limited.Err() != nil && err == limited.Err(), err //nolint:errorlint // another error may wrap it
}

// Registrar writes the record of this node.
func (s *Server) Registrar() *fleet.Registrar { return s.registrar }

// Gate is the gate of this node.
func (s *Server) Gate() *status.Gate { return s.gate }

// Local follows the roles.
func (s *Server) Local() *event.Value[Local] { return s.fetcher.Local() }

// Loaded follows the services of the directory.
func (s *Server) Loaded() *event.Value[[]service.Service] { return s.loaded }

// State follows what is known of the services that were started.
func (s *Server) State() *event.Value[service.State] { return s.supervised.State() }

// Problem follows why the services directory as it is now was rejected; empty: it was
// not.
func (s *Server) Problem() *event.Value[string] { return s.problem }

// Run runs the node until ctx ends, or a worker of it or of another group fails, and
// stops it in order: the gate closes, the node's address leaves the Service kubernetes,
// the leadership is given up, the shutdown delay passes, the services stop, the presence is
// deleted, with an ephemeral record. It returns why a worker of the node failed; nil: none has.
func (s *Server) Run(ctx context.Context, others ...*supervise.Group) error {
	// Each group runs longer than the one after it.
	node, present, registered, leading := supervise.NewGroup(ctx), supervise.NewGroup(ctx), supervise.NewGroup(ctx), supervise.NewGroup(ctx)
	groups := []*supervise.Group{node, present, registered, leading}
	for _, g := range groups {
		defer g.End()
	}
	// A worker whose failure could leave a gate open ends the node.
	keep, contain := s.cfg.Supervisor.Keep, s.cfg.Supervisor.Contain
	node.Start("gate", contain("gate", s.gate.Run))
	node.Start("roles", contain("roles", s.runRoles))
	present.Start("shown", keep("shown", s.cfg.Shown, nil))
	present.Start("presence", contain("presence", s.cfg.Enter(s.cfg.Presence)))
	registered.Start("registrar", contain("registrar", s.cfg.Enter(s.registrar.Run)))
	leading.Start("election", contain("election", s.whileServing(s.cfg.Election)))
	s.cfg.Log.Info("started")

	supervise.Wait(ctx, append(groups, others...)...)
	stopped := time.Now()
	s.stop(ctx, supervise.Err(append(groups, others...)...), leading)
	facts := s.cfg.AwaitLeaving(ctx, stopped)
	registered.End()
	s.cfg.Leave(ctx, facts)
	present.End()
	node.End()
	return supervise.Err(groups...)
}

// stop stops what the node does, in the order in which a node stops that loses its role
// (docs/protocol.md#services): what runs beside a sidecar without services counts as one.
// failure is why the node stops; nil: it was asked to. One that fails does not wait here:
// only Kubernetes does, if there are services to stop.
func (s *Server) stop(ctx context.Context, failure error, leading *supervise.Group) {
	// With KillMode=control-group, the services got SIGTERM, too: they end, and stay so.
	s.supervised.EndStarts()
	f := protocol.ServiceFacts{Known: true, Running: true, Published: true, Leads: true, ShutdownDelay: s.cfg.ShutdownDelay}
	if ctx.Err() == nil {
		f.Published, f.ShutdownDelay = false, 0
	}
	for began := time.Now(); ; f.Closed = time.Since(began) {
		switch protocol.NextServiceStep(f) {
		case protocol.CloseGate:
			s.cfg.CloseGate(ctx, failure)
			f.GateClosed = true
		case protocol.AwaitAddress:
			s.awaitAddress(protocol.MaxAwaitAddress - f.Closed)
			f.Published = false
		case protocol.HandOver:
			leading.End()
			s.cfg.Log.Info("not leading any more")
			f.Leads = false
		case protocol.AwaitDelay:
			<-time.After(f.ShutdownDelay - f.Closed)
		case protocol.StopServices:
			s.stopServices(ctx)
			f.Running = false
		default:
			return
		}
	}
}

// awaitAddress returns when the address of this node has left the Service kubernetes, or
// stays there, or the limit is over.
func (s *Server) awaitAddress(limit time.Duration) {
	began, over := time.Now(), time.After(limit)
	for {
		published, changed := s.cfg.Published()
		if !published {
			s.cfg.Log.Info("address is not in the service kubernetes, or stays there", "duration", time.Since(began))
			return
		}
		select {
		case <-changed:
		case <-over:
			s.cfg.Log.Warn("address not seen to leave the service kubernetes", "after", limit)
			return
		}
	}
}

// runRoles runs the workers that follow the roles, until ctx ends.
func (s *Server) runRoles(ctx context.Context) error {
	if err := s.cfg.Hold(ctx); err != nil {
		return err
	}
	if err := s.disk.Load(); err != nil {
		return fmt.Errorf("roles of this node: %w", err)
	}
	s.supervised.findLeft()
	s.phase.Set(phaseRuns)
	defer s.phase.Set(phaseEnded)
	group, ctx := errgroup.WithContext(ctx)
	keep := func(name string, run supervise.Worker) {
		kept := s.cfg.Supervisor.Keep(name, run, nil)
		group.Go(func() error { return kept(ctx) })
	}
	keep("fetcher", s.fetcher.Run)
	if s.disk != nil {
		keep("roles-file", s.fetcher.keep)
	}
	keep("kubernetes", s.kubernetes.Run)
	if s.controlPlane != nil {
		keep("control-plane", s.cfg.Enter(s.controlPlane.Run))
	}
	for _, f := range s.others {
		keep(f.role, f.run)
	}
	if s.cfg.Dir != "" {
		keep("services-directory", func(ctx context.Context) error { return service.Watch(ctx, s.cfg.Dir, serviceInterval, s.reloaded) })
		keep("services-change", s.keepLoaded)
	}
	// It has the processes: it cannot be started again beside them.
	services := s.cfg.Supervisor.Contain("services", s.supervised.Run)
	group.Go(func() error { return services(ctx) })
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
		s.found.Set(services)
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

// stopServices stops the services in order, and returns when they have ended. Nothing
// starts after it. It gives up after their stop timeouts.
func (s *Server) stopServices(ctx context.Context) {
	limit := max(s.cfg.ShutdownDelay, protocol.MaxAwaitAddress) + s.supervised.StopLimit()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	s.kubernetes.endStarts()
	// Workers that still wait for the directory start nothing from here on.
	if s.phase.Get() == phaseWaits {
		for _, f := range s.others {
			f.endStarts()
		}
	}
	if s.phase.Get() != phaseRuns { // it may have got the directory just now
		return
	}
	err := s.kubernetes.Stop(ctx)
	for _, f := range s.others {
		err = errors.Join(err, f.stop(ctx))
	}
	if err != nil {
		s.cfg.Log.Error("services not stopped", "err", err)
	}
}
