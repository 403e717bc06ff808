// Package supervise keeps the workers of a sidecar running: one that fails or panics is
// started again after a pause, and takes no other one down (docs/adr/0015-supervision-of-services.md).
// It owns the list of the workers that fail. It starts no goroutine of its own: a worker
// runs on that of its caller.
package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// Worker runs until its context ends. If it returns before, it failed.
type Worker func(context.Context) error

// Failure is a worker that failed, and is or was started again.
type Failure struct {
	Worker  string
	Problem string    // why it failed last
	Since   time.Time // when it failed first
	Times   int
}

// Supervisor keeps workers running. Its methods may be called from many goroutines.
type Supervisor struct {
	log      *slog.Logger
	metrics  metrics
	failures *event.Value[[]Failure]
}

// New returns a supervisor without workers. Without a registerer, it reports no metrics.
func New(log *slog.Logger, r prometheus.Registerer) *Supervisor {
	return &Supervisor{log: log, metrics: newMetrics(r), failures: event.New[[]Failure](nil)}
}

// Failures follows the workers that failed lately, in the order of their names.
func (s *Supervisor) Failures() *event.Value[[]Failure] { return s.failures }

// errEnded is the problem of a worker that returned no error.
var errEnded = errors.New("it ended by itself")

const (
	// The pauses before a worker is started again.
	firstPause = 100 * time.Millisecond
	maxPause   = 10 * time.Second
	// goodRun is how long a worker must run for its failures to be forgotten.
	goodRun = time.Minute
)

// Keep returns a worker that starts run again each time it fails, until ctx ends. It fails
// only with an error for which final returns true; nil: with none.
func (s *Supervisor) Keep(name string, run Worker, final func(error) bool) Worker {
	s.metrics.restarts.WithLabelValues(name)
	return func(ctx context.Context) error {
		pauses := backoff.Backoff{First: firstPause, Max: maxPause}
		for {
			forget := time.AfterFunc(goodRun, func() { s.forget(name) })
			began := time.Now()
			err := s.Contain(name, run)(ctx)
			forget.Stop()
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil && final != nil && final(err):
				return err
			case err == nil:
				err = errEnded
			}
			if time.Since(began) >= goodRun {
				pauses.Reset()
			}
			s.failed(name, err)
			if !pauses.Sleep(ctx) {
				return ctx.Err()
			}
		}
	}
}

// Contain returns a worker that fails when run panics.
func (s *Supervisor) Contain(name string, run Worker) Worker {
	return func(ctx context.Context) (err error) {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("worker panicked", "worker", name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		return run(ctx)
	}
}

// failed records the failure of a worker.
func (s *Supervisor) failed(name string, err error) {
	s.log.Error("worker failed, starting it again", "worker", name, "err", err)
	s.metrics.restarts.WithLabelValues(name).Inc()
	event.Update(s.failures, func(all []Failure) []Failure {
		all = slices.Clone(all)
		i, found := slices.BinarySearchFunc(all, name, byName)
		if !found {
			all = slices.Insert(all, i, Failure{Worker: name, Since: time.Now()})
		}
		all[i].Problem = err.Error()
		all[i].Times++
		return all
	})
}

func (s *Supervisor) forget(name string) {
	event.Update(s.failures, func(all []Failure) []Failure {
		if i, found := slices.BinarySearchFunc(all, name, byName); found {
			return slices.Delete(slices.Clone(all), i, i+1)
		}
		return all
	})
}

func byName(f Failure, name string) int { return cmp.Compare(f.Worker, name) }
