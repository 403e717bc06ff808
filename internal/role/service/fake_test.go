package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
	"github.com/lockstep-dev/lockstep/internal/role/service/readiness"
)

// fakes are drivers and probes that run in a bubble. story lists their steps.
type fakes struct {
	mu    sync.Mutex // mu guards the fields below
	story []string
	plans map[string]fakePlan
	runs  map[string]*fakeRun // the newest of each service
	ready map[string]bool     // the results of probes
	lines int                 // how often each service wrote its line
}

// fakePlan is how the instances of a service behave. The zero value runs until it is stopped.
type fakePlan struct {
	lasts   time.Duration // until it ends by itself; 0: it does not
	takes   time.Duration // to stop
	stuck   int           // how many attempts to stop it fail
	panics  string        // where: new, run, running, stop, lines, probe
	onlyOne bool          // the plan is for one instance: the next follows the zero plan
}

// fakeRun is a Run of a driver.
type fakeRun struct {
	ctx     context.Context
	running func()
}

func newFakes() *fakes {
	return &fakes{lines: 1, plans: map[string]fakePlan{}, runs: map[string]*fakeRun{}, ready: map[string]bool{}}
}

func (f *fakes) tell(words ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.story = append(f.story, strings.Join(words, " "))
}

// read returns the steps since it was called last.
func (f *fakes) read() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.story
	f.story = nil
	return out
}

func (f *fakes) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// fakeDriver runs one service.
type fakeDriver struct {
	*fakes
	name string
}

func (f *fakes) newDriver(s Service) driver.Driver {
	if f.plan(s.Name).panics == "new" {
		panic("new driver")
	}
	return &fakeDriver{f, s.Name}
}

func (f *fakes) plan(name string) fakePlan {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.plans[name]
}

func (f *fakes) newProbe(s Service) readiness.Probe {
	return func(context.Context) error {
		if f.plan(s.Name).panics == "probe" {
			panic("probe")
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.ready[s.Name] {
			return errors.New("not yet")
		}
		return nil
	}
}

func (d *fakeDriver) LastLines() []string {
	if d.plan(d.name).panics == "lines" {
		panic("lines")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Repeat([]string{"a line of " + d.name}, d.lines)
}

func (d *fakeDriver) Run(ctx context.Context, running func()) driver.Exit {
	as := d.plan(d.name)
	if as.onlyOne {
		d.set(func() { d.plans[d.name] = fakePlan{} })
	}
	if ctx.Err() != nil {
		return d.stop(as)
	}
	if as.panics == "run" {
		panic("run driver")
	}
	d.set(func() { d.runs[d.name] = &fakeRun{ctx, running} })
	d.tell("start", d.name)
	running()
	if as.panics == "running" {
		panic("after start")
	}
	var lasts <-chan time.Time
	if as.lasts > 0 {
		lasts = time.After(as.lasts)
	}
	select {
	case <-ctx.Done():
		return d.stop(as)
	case <-lasts:
		d.tell("end", d.name)
		return driver.Exit{Reason: "exit status 1"}
	}
}

func (d *fakeDriver) stop(as fakePlan) driver.Exit {
	d.tell("stop", d.name)
	if as.panics == "stop" {
		panic("stop driver")
	}
	<-time.After(as.takes)
	if as.stuck > 0 {
		as.stuck--
		d.set(func() { d.plans[d.name] = as })
		return driver.Exit{Reason: "it hangs", StillRuns: true}
	}
	d.tell("stopped", d.name)
	return driver.Exit{Reason: "exit status 0"}
}

// rig is a supervisor with fakes, in a bubble.
type rig struct {
	*Supervisor
	*fakes
	cancel context.CancelFunc
	err    error // of Run; read after done
	done   chan struct{}
}

// inBubble runs a test with a supervisor that runs.
func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFakes()
		r := &rig{fakes: f, done: make(chan struct{}), Supervisor: New(Config{NewDriver: f.newDriver, NewProbe: f.newProbe})}
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		r.cancel = cancel
		go func() {
			defer close(r.done)
			r.err = r.Run(ctx)
		}()
		defer func() { cancel(); <-r.done }()
		test(t, r)
	})
}

// awaitReady returns when all services of the last Reload are ready. If ctx ends before, the error
// names the first service that is not ready, and why.
func (s *Supervisor) awaitReady(ctx context.Context) error {
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

// named returns services with a probe that succeeds when the fakes say so.
func named(names ...string) []Service {
	var out []Service
	for _, name := range names {
		out = append(out, Service{
			Name: name, Role: "kubernetes_controller", Process: &Process{Command: []string{"/" + name}}, StopTimeout: time.Minute,
			Readiness: &readiness.Config{Period: 10 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3},
		})
	}
	return out
}

// plain returns services without a probe.
func plain(names ...string) []Service {
	out := named(names...)
	for i := range out {
		out[i].Readiness = nil
	}
	return out
}

func (r *rig) wantStory(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := r.read(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func (r *rig) status(t *testing.T, name string) Status {
	t.Helper()
	synctest.Wait()
	st, known := r.State().Get().find(name)
	if !known {
		t.Fatalf("no status of %s: %+v", name, r.State().Get())
	}
	return st
}

// wantPhases wants "name Phase" of each service, with "ready" after it if it is.
func (r *rig) wantPhases(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for _, st := range r.State().Get().Services {
		text := st.Name + " " + string(st.Phase)
		if st.Ready {
			text += " ready"
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
