package service

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/sorting"
)

// round is the loop of Run: it compares the wanted services with the current workers, and takes the
// next steps. Only Run's goroutine uses it.
type round struct {
	s        *Supervisor
	workers  []*worker         // in the order of the services
	changes  []<-chan struct{} // after which the next steps may be due
	problems []error
}

// finished takes the steps that are due. It reports whether ctx has ended and all services are
// stopped.
func (r *round) finished(ctx context.Context) bool {
	wanted, reloaded := r.s.wanted.Load()
	_, ended := r.s.ended.Load()
	r.reap()
	stopping := ctx.Err() != nil
	if stopping {
		wanted.services = nil
	} else {
		r.arrange(wanted)
	}
	now, changed := r.s.state.Load()
	r.changes = []<-chan struct{}{reloaded, ended, changed}
	if !stopping {
		r.changes = append(r.changes, ctx.Done())
	}
	stop, start := plan(wanted.services, r.workers, now)
	if stop != nil {
		r.s.stop(stop)
	}
	if start != nil && !r.s.final.Get() {
		r.workers = append(r.workers, r.s.start(ctx, *start))
		r.sort(wanted.services)
	}
	return stopping && len(r.workers) == 0
}

// reap drops the workers that have ended.
func (r *round) reap() {
	kept := r.workers[:0]
	for _, w := range r.workers {
		select {
		case <-w.done:
			if w.exit.StillRuns {
				r.problems = append(r.problems, fmt.Errorf("%w: %q: %s", ErrStillRuns, w.service.Name, w.exit.Reason))
			}
		default:
			kept = append(kept, w)
		}
	}
	r.workers = kept
}

// arrange sets a status for each service that is wanted or runs. It does not set an equal state:
// that would wake this loop.
func (r *round) arrange(wanted wish) {
	var others []Service
	for _, w := range r.workers {
		others = append(others, w.service)
	}
	if now := r.s.state.Get(); !reflect.DeepEqual(now, now.arranged(wanted, others)) {
		event.Update(r.s.state, func(st State) State { return st.arranged(wanted, others) })
	}
}

// sort sorts the workers in the order of the services: a restarted one returns to its old place.
// When a service starts, all workers are wanted.
func (r *round) sort(wanted []Service) {
	place := func(w *worker) int {
		return slices.IndexFunc(wanted, func(s Service) bool { return s.Name == w.service.Name })
	}
	sorting.By(r.workers, func(a, b *worker) int { return cmp.Compare(place(a), place(b)) })
}

// plan returns the worker to stop and the service to start; nil: none now.
//
// The last unwanted worker is stopped first, and the one before it when that has ended. Nothing
// starts meanwhile: so the old instance of a service ends before its new one starts, even under
// another name. A service starts once all required services before it were ready.
func plan(wanted []Service, workers []*worker, now State) (stop *worker, start *Service) {
	for _, w := range slices.Backward(workers) {
		switch {
		case w.stopping:
			return nil, nil
		case !slices.ContainsFunc(wanted, w.service.Equal):
			return w, nil
		}
	}
	for i, svc := range wanted {
		if !slices.ContainsFunc(workers, func(w *worker) bool { return w.service.Name == svc.Name }) {
			return nil, &wanted[i]
		}
		if st, _ := now.find(svc.Name); !st.wasReady && !svc.Optional {
			return nil, nil
		}
	}
	return nil, nil
}
