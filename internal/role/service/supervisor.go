package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/child"
	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
	"github.com/lockstep-dev/lockstep/internal/role/service/readiness"
)

// Config configures a Supervisor. No field is required.
type Config struct {
	Log *slog.Logger // nil: none
	// NewDriver returns the driver of a service; nil: the driver that the service's file names.
	NewDriver func(Service) driver.Driver
	// NewProbe returns the probe of a service with a Readiness; nil: the probe that Readiness
	// describes.
	NewProbe func(Service) readiness.Probe
	// Known are all services of the directory. When Run begins, it removes manifests that an earlier
	// sidecar placed for other services.
	Known []Service
}

// Supervisor runs services.
type Supervisor struct {
	cfg     Config
	log     *slog.Logger
	starter *child.Starter
	wanted  *event.Value[wish]
	state   *event.Value[State]
	ended   *event.Value[struct{}] // set when a worker ends
	final   *event.Value[bool]     // nothing starts any more
	// unproven maps the names of services with an exec probe to whether the probe succeeded before the
	// service was started.
	unproven sync.Map
}

// wish is the argument and the number of the last Reload.
type wish struct {
	services []Service
	number   int // the number of the call
}

// ErrStillRuns is returned by Run if it could not stop a service.
var ErrStillRuns = errors.New("service still runs")

// New returns a supervisor without services. It starts nothing; Run does.
func New(cfg Config) *Supervisor {
	s := &Supervisor{
		cfg: cfg, log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), starter: child.NewStarter(),
		wanted: event.New(wish{}), state: event.New(State{}), ended: event.New(struct{}{}),
		final: event.New(false),
	}
	if s.cfg.NewDriver == nil {
		s.cfg.NewDriver = s.newDriver
	}
	if s.cfg.NewProbe == nil {
		s.cfg.NewProbe = s.newProbe
	}
	return s
}

// State follows the state of the services.
func (s *Supervisor) State() *event.Value[State] { return s.state }

// Reload replaces the services to run. Run leaves unchanged services alone, and stops and starts
// changed ones. Names must be unique, and variables expanded. It returns the number of the call: a
// State whose Reload is at least this number reflects it.
func (s *Supervisor) Reload(services []Service) int {
	var number int
	event.Update(s.wanted, func(w wish) wish {
		number = w.number + 1
		return wish{services: slices.Clone(services), number: number}
	})
	return number
}

// EndStarts prevents any further start. A service that ends by itself is not started again: a
// signal that stops the sidecar may stop its services, too. Running services continue until Reload,
// or the end of Run, stops them.
func (s *Supervisor) EndStarts() { s.final.Set(true) }

// change changes the status of a service.
func (s *Supervisor) change(name string, edit func(*Status)) {
	event.Update(s.state, func(st State) State { return st.with(name, edit) })
}

// Run starts the services in order and keeps them running. When ctx ends, it stops them in reverse
// order, each with its stop timeout. It returns ctx's error, joined with ErrStillRuns if a service
// could not be stopped.
func (s *Supervisor) Run(ctx context.Context) error {
	var background sync.WaitGroup
	startCtx, endStarter := context.WithCancel(context.WithoutCancel(ctx))
	// Its only error is the end of startCtx, which ends after all services have stopped.
	background.Go(func() { _ = s.starter.Run(startCtx) })
	defer func() {
		endStarter()
		background.Wait()
	}()
	s.clean(ctx, s.cfg.Known)
	r := &round{s: s}
	for !r.finished(ctx) {
		event.Wait(context.WithoutCancel(ctx), r.changes...)
	}
	return errors.Join(append([]error{ctx.Err()}, r.problems...)...)
}
