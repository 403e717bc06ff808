package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/role/service/driver"
	"github.com/lockstep-dev/lockstep/role/service/process"
	"github.com/lockstep-dev/lockstep/role/service/readiness"
)

// Config has what a supervisor needs. No field is required.
type Config struct {
	Log *slog.Logger // nil: none
	// NewDriver returns what runs a service; nil: the driver that the service names.
	NewDriver func(Service) driver.Driver
	// NewProbe returns the probe of a service that has a Readiness; nil: the one that it names.
	NewProbe func(Service) readiness.Probe
	// Known are all services of the directory. When Run begins, it removes what an earlier
	// sidecar placed for services that are not among them.
	Known []Service
}

// Supervisor runs services.
type Supervisor struct {
	cfg     Config
	log     *slog.Logger
	starter *process.Starter
	wanted  *event.Value[wish]
	state   *event.Value[State]
	ended   *event.Value[struct{}] // set when a worker has ended
	final   *event.Value[bool]     // nothing starts any more
	// unproven has the names of services with a probe that is a program, and whether it succeeded
	// before the service was started.
	unproven sync.Map
}

// wish is what Reload was called with last.
type wish struct {
	services []Service
	number   int // of the call
}

// ErrStillRuns is the end of a supervisor that could not stop a service.
var ErrStillRuns = errors.New("service still runs")

// New returns a supervisor without services. It starts nothing; Run does.
func New(cfg Config) *Supervisor {
	s := &Supervisor{
		cfg: cfg, log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), starter: process.NewStarter(),
		wanted: event.New(wish{}), state: event.New(State{Ready: true}), ended: event.New(struct{}{}),
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

// State follows what is known of the services.
func (s *Supervisor) State() *event.Value[State] { return s.state }

// Reload makes these services the ones that run. One that is as before goes on undisturbed. One
// that has changed is stopped and started. Names must be unique, and variables expanded. It returns
// the number of the call: a State with that Reload, or a higher one, follows from it.
func (s *Supervisor) Reload(services []Service) int {
	var number int
	event.Update(s.wanted, func(w wish) wish {
		number = w.number + 1
		return wish{services: slices.Clone(services), number: number}
	})
	return number
}

// EndStarts lets no service start from here on. One that ends by itself is not started again: what
// stops the sidecar may have stopped the service, too. Those that run go on until Reload, or the end
// of Run, stops them.
func (s *Supervisor) EndStarts() { s.final.Set(true) }

// AwaitReady returns when all services that were wanted last are ready, or when ctx ends. Its
// error then names those that are not, and why.
func (s *Supervisor) AwaitReady(ctx context.Context) error {
	for {
		wanted, reloaded := s.wanted.Load()
		now, changed := s.state.Load()
		problem := now.Unready(wanted.services)
		if problem == "" {
			return nil
		}
		if !event.Wait(ctx, reloaded, changed) {
			return fmt.Errorf("%s: %w", problem, context.Cause(ctx))
		}
	}
}

// Run starts the services in their order, keeps them running and, when ctx ends, stops them in the
// reverse order, each with its stop timeout. It returns ctx's error, with ErrStillRuns if a
// service could not be stopped.
func (s *Supervisor) Run(ctx context.Context) error {
	var background sync.WaitGroup
	startCtx, endStarter := context.WithCancel(context.WithoutCancel(ctx))
	// It ends with the context that was made for it.
	background.Go(func() { _ = s.starter.Run(startCtx) })
	defer func() {
		endStarter()
		background.Wait()
	}()
	s.clean(ctx, s.cfg.Known)
	r := &round{s: s}
	for !r.finished(ctx) {
		r.wait(ctx)
	}
	return errors.Join(append([]error{ctx.Err()}, r.problems...)...)
}
