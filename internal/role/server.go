package role

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/status"
)

// Server runs a node: the services and the etcd member of its roles, and its registration,
// presence, gate and election. A node without services, or without its own etcd member, takes the
// same path.
type Server struct {
	cfg        ServerConfig
	retirer    *fleet.Retirer
	disk       *Disk
	fetcher    *Fetcher
	supervised *Supervised
	controller *Starter
	// controlPlane is nil with an etcd that runs elsewhere.
	controlPlane *ControlPlane
	others       []*Starter
	registrar    *fleet.Registrar
	gate         *status.Gate
	loaded       *event.Value[[]service.Service]
	found        *event.Value[[]service.Service] // the last valid services of the directory
	variables    *event.Value[service.Variables] // the values in use
	pending      *event.Value[string]            // which changed services wait for a turn, for people; empty: none
	turn         *event.Value[turn]
	changing     *event.Value[bool] // services stopped behind a closed gate to be changed, and are not ready yet
	problem      *event.Value[string]
	phase        *event.Value[phase]
	stopping     event.Value[bool] // stop began, which stops the services in its own order
}

// phase is the progress of the workers of roles.
type phase int

const (
	phaseWaits phase = iota // for the directory
	phaseRuns
	phaseEnded
)

// NewServer returns a server that starts nothing before Run.
func NewServer(cfg ServerConfig) *Server {
	local, loaded := cfg.Registrar.Local.Get(), cfg.Services.Loaded
	s := &Server{
		cfg: cfg, loaded: event.New(loaded), found: event.New(loaded), variables: event.New(cfg.Services.Variables.Get()),
		pending: event.New(""), turn: event.New(turn{}), changing: event.New(false), problem: event.New(""), phase: event.New(phaseWaits),
	}
	if cfg.Roles.File != "" {
		s.disk = NewDisk(cfg.Roles.File)
	}
	s.fetcher = NewFetcher(FetcherConfig{
		Node: local.ID, Fleet: cfg.Registrar.Fleet, First: protocol.Roles{Controller: true, Consensus: cfg.Registrar.Consensus},
		Disk: s.disk, Log: cfg.Log.With("worker", "roles"),
	})
	log := cfg.Log.With("worker", "services")
	s.supervised = NewSupervised(SupervisedConfig{Loaded: s.loaded, Variables: s.variables, Disk: s.disk, Log: log})
	s.controller = NewStarter(StarterConfig{
		Role: protocol.RoleController, Services: s.supervised.Of(protocol.RoleController), Roles: s.fetcher.Local(), Disk: s.disk,
		Reads: cfg.Services.Dir != "", Release: local.Version.Release.String(),
		Presence: held(cfg.Registrar.Presence), Leads: cfg.Election.Leads, Published: cfg.APIServer.Published,
		Changing: s.changing, ShutdownDelay: cfg.ShutdownDelay, Log: log,
	})
	for _, name := range []string{protocol.RoleWorker, protocol.RoleConsensus} {
		s.others = append(s.others, newUngated(name, s.supervised.Of(name), s.fetcher.Local(), log))
	}
	if cfg.Cluster != nil {
		s.controlPlane = NewControlPlane(ControlPlaneConfig{
			Member: cfg.Cluster, Roles: s.fetcher.Local(), Log: cfg.Log.With("worker", "control-plane"),
		})
	}
	cfg.Registrar.Services, cfg.Registrar.First = s.controller.Facts(), s.fetcher.First
	s.registrar = fleet.NewRegistrar(cfg.Registrar)
	cfg.Gate.Registration, cfg.Gate.Withheld = s.registrar.Registration(), s.controller.Withheld()
	s.gate = status.NewGate(cfg.Gate)
	s.controller.cfg.Shown = s.gate.Shown() // last, since the gate and the services follow each other
	s.retirer = fleet.NewRetirer(fleet.RetirerConfig{
		Registrar: s.registrar, Rest: cfg.Presence.Rest, GateClosed: func() bool { return !s.gate.Shown().Get().Ready },
		Leads: cfg.Election.Leads, Refuses: cfg.APIServer.Refuses, ShutdownDelay: cfg.ShutdownDelay, Log: cfg.Log,
	})
	return s
}

// held returns a function that reports whether a value differs from its zero value.
func held[T comparable](v *event.Value[T]) func() (bool, <-chan struct{}) {
	return func() (bool, <-chan struct{}) {
		var none T
		now, changed := v.Load()
		return now != none, changed
	}
}

// Withheld follows the reason why this node's services keep its gate closed; empty: they do not.
func (s *Server) Withheld() *event.Value[string] { return s.controller.Withheld() }

// whileServing returns a worker that runs another one while Withheld is empty: once this node's
// services were ready, also if one fails by itself. A node whose services are still starting, or
// are being stopped, takes no part in the election: it could not do the work.
func (s *Server) whileServing(run supervise.Worker) supervise.Worker {
	return func(ctx context.Context) error {
		for {
			if err := event.Until(ctx, s.controller.Withheld(), func(why string) bool { return why == "" }); err != nil {
				return err
			}
			if again, err := s.untilWithheld(ctx, run); !again {
				return err
			}
		}
	}
}

// errWithheld ends a worker of whileServing when Withheld is set.
var errWithheld = errors.New("the services of this node are not ready")

// untilWithheld runs a worker. again: it ended only because the services stop. Its own error counts
// even while the services stop: election.ErrJobStuck means that a job may still write to the API,
// so nothing may run beside it.
func (s *Server) untilWithheld(ctx context.Context, run supervise.Worker) (again bool, err error) {
	limited, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer end(nil)
	watching.Go(func() { // ends with limited
		if event.Until(limited, s.controller.Withheld(), func(why string) bool { return why != "" }) == nil {
			end(errWithheld)
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

// State follows the state of the services that were started.
func (s *Server) State() *event.Value[service.State] { return s.supervised.State() }

// Problem follows the reason why the current services directory was rejected; empty: it was not.
func (s *Server) Problem() *event.Value[string] { return s.problem }

// Run runs the node until ctx ends, or until a worker of the node or of another group fails. Then
// it stops the node in order: it closes the gate, waits until the node's address has left the
// Service kubernetes, gives up the leadership, waits for the shutdown delay, stops the services,
// and deletes the presence, and an ephemeral record with it. It returns the error of a failed
// worker of the node; nil: none failed.
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
	present.Start("shown", keep("shown", s.cfg.Presence.Show, nil))
	present.Start("presence", contain("presence", s.inCluster(s.cfg.Presence.Run)))
	registered.Start("registrar", contain("registrar", s.inCluster(s.registrar.Run)))
	leading.Start("election", contain("election", s.whileServing(s.cfg.Election.Run)))
	s.cfg.Log.Info("started")

	supervise.Wait(ctx, append(groups, others...)...)
	stopped := time.Now()
	s.stop(ctx, supervise.Err(append(groups, others...)...), leading)
	facts := s.retirer.Await(ctx, stopped)
	registered.End()
	s.retirer.Retire(ctx, facts)
	present.End()
	node.End()
	return supervise.Err(groups...)
}

// stop shuts the node down in the order used when it loses its role (docs/protocol-nodes.md#services).
// Without services, the kube-apiserver beside the sidecar counts as one. failure is why the node
// stops; nil: it was asked to stop. After a failure it does not wait here: only a Starter does, if
// there are services to stop.
func (s *Server) stop(ctx context.Context, failure error, leading *supervise.Group) {
	s.stopping.Set(true)
	// With KillMode=control-group, the services got SIGTERM, too: they end, and must not start again.
	s.supervised.EndStarts()
	f := nodeservices.Facts{Known: true, Running: true, Published: true, Leads: true, ShutdownDelay: s.cfg.ShutdownDelay}
	if ctx.Err() == nil {
		f.Published, f.ShutdownDelay = false, 0
	}
	for began := time.Now(); ; f.Closed = time.Since(began) {
		switch nodeservices.Next(f) {
		case nodeservices.CloseGate:
			s.closeGate(ctx, failure)
			f.GateClosed = true
		case nodeservices.AwaitAddress:
			s.awaitAddress(nodeservices.MaxAwaitAddress - f.Closed)
			f.Published = false
		case nodeservices.HandOver:
			leading.End()
			s.cfg.Log.Info("left the election: this node neither leads nor campaigns")
			f.Leads = false
		case nodeservices.AwaitDelay:
			<-time.After(f.ShutdownDelay - f.Closed)
		case nodeservices.StopServices:
			s.stopServices(ctx)
			f.Running = false
		default:
			return
		}
	}
}

// showLimit bounds how long a stop waits until clients see the closed gate.
const showLimit = time.Second

// closeGate closes the gate for good, and returns when clients see it. failure is why the node stops;
// nil: it was asked to stop.
func (s *Server) closeGate(ctx context.Context, failure error) {
	if duplicate, found := errors.AsType[*fleet.DuplicateError](failure); found {
		s.gate.Duplicate(duplicate.Error())
	} else {
		s.gate.Stop()
	}
	// ctx may have ended already, so this wait uses its own limit.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), showLimit)
	defer cancel()
	_ = s.gate.WaitShown(limited) // the stop continues either way
}

// inCluster returns a worker that waits until this node's cluster is reached, and then runs.
func (s *Server) inCluster(run supervise.Worker) supervise.Worker {
	if s.cfg.Cluster == nil {
		return run
	}
	return s.cfg.Cluster.InCluster(run)
}

// awaitAddress returns when this node's address has left the Service kubernetes or is to stay
// there, or after limit.
func (s *Server) awaitAddress(limit time.Duration) {
	began, over := time.Now(), time.After(limit)
	for {
		published, changed := s.cfg.APIServer.Published()
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

// runRoles runs the workers that follow the roles until ctx ends.
func (s *Server) runRoles(ctx context.Context) error {
	if err := s.cfg.Roles.Hold(ctx); err != nil {
		return err
	}
	if err := s.disk.Load(); err != nil {
		return fmt.Errorf("roles of this node: %w", err)
	}
	s.variables.Set(s.cfg.Services.Variables.Get()) // before what runs is compared with them
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
	keep(s.controller.cfg.Role, s.controller.Run)
	if s.controlPlane != nil {
		keep("control-plane", s.inCluster(s.controlPlane.Run))
	}
	for _, starter := range s.others {
		keep(starter.cfg.Role, starter.Run)
	}
	if s.cfg.Services.Dir != "" {
		keep("services-directory", func(ctx context.Context) error {
			return service.Watch(ctx, s.cfg.Services.Dir, serviceInterval, s.reloaded)
		})
		keep("services-change", s.keepLoaded)
	}
	keep("service-turns", s.inCluster(s.keepTurns)) // without services, too: it ends the turn that the node has from before
	// It owns the child processes, so it cannot be started again beside them.
	services := s.cfg.Supervisor.Contain("services", s.supervised.Run)
	group.Go(func() error { return services(ctx) })
	return group.Wait()
}

// serviceInterval is the pause between two reads of the services directory.
const serviceInterval = 2 * time.Second

// reloaded publishes valid services. After an error it reports why the last valid ones stay in use.
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

// stopServices stops the services in order, and returns when all have ended. Nothing starts after
// it. It gives up after their stop timeouts.
func (s *Server) stopServices(ctx context.Context) {
	limit := max(s.cfg.ShutdownDelay, nodeservices.MaxAwaitAddress) + s.supervised.StopLimit()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	s.controller.endStarts()
	// Workers that still wait for the directory start nothing from here on.
	if s.phase.Get() == phaseWaits {
		for _, f := range s.others {
			f.endStarts()
		}
	}
	if s.phase.Get() != phaseRuns { // Hold may have returned just now
		return
	}
	err := s.controller.Stop(ctx)
	for _, f := range s.others {
		err = errors.Join(err, f.Stop(ctx))
	}
	if err != nil {
		s.cfg.Log.Error("services not stopped", "err", err)
	}
}
