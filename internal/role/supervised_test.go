package role

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
	"github.com/lockstep-dev/lockstep/protocol"
)

// fakeDrivers run services that start at once and take a second to stop.
type fakeDrivers struct {
	mu    sync.Mutex // mu guards the fields below
	log   []string
	stuck bool // they do not stop
}

func (f *fakeDrivers) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, text)
}

func (f *fakeDrivers) setStuck(stuck bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stuck = stuck
}

func (f *fakeDrivers) isStuck() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stuck
}

func (f *fakeDrivers) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.log)
}

type fakeDriver struct {
	all  *fakeDrivers
	name string
}

func (d fakeDriver) Run(ctx context.Context, running func()) driver.Exit {
	if ctx.Err() == nil {
		d.all.note("start " + d.name)
		running()
		<-ctx.Done()
		<-time.After(time.Second)
	}
	d.all.note("stop " + d.name)
	return driver.Exit{Reason: "stopped", StillRuns: d.all.isStuck()}
}

func (fakeDriver) LastLines() []string { return nil }

// supervisedRig is Supervised with fake drivers. Its services are a unit and a process of
// the controller role, and a process of a worker.
type supervisedRig struct {
	*testing.T
	drivers    *fakeDrivers
	loaded     *event.Value[[]service.Service]
	variables  *event.Value[service.Variables]
	supervised *Supervised
	controller *Group
	worker     *Group
}

func process(name, role, command string) service.Service {
	return service.Service{Name: name, Role: role, Process: &service.Process{Command: []string{command}}, StopTimeout: time.Minute}
}

func newSupervisedRig(t *testing.T) *supervisedRig {
	t.Helper()
	return newSupervisedRigOf(t, nil, unit("unit", "a.service"), process("api", protocol.RoleController, "$(ETCD_SERVERS)"), process("proxy", protocol.RoleWorker, "/x"))
}

func unit(name, of string) service.Service {
	return service.Service{Name: name, Role: protocol.RoleController, SystemdUnit: &service.SystemdUnit{Name: of}, StopTimeout: time.Minute}
}

// newSupervisedRigOf returns a rig with other services and another disk.
func newSupervisedRigOf(t *testing.T, disk *Disk, services ...service.Service) *supervisedRig {
	t.Helper()
	r := &supervisedRig{T: t, drivers: &fakeDrivers{}, variables: event.New(service.Variables{}), loaded: event.New(services)}
	r.supervised = NewSupervised(SupervisedConfig{
		Loaded: r.loaded, Variables: r.variables, Disk: disk, Log: slog.New(slog.DiscardHandler),
		Supervisor: service.Config{NewDriver: func(s service.Service) driver.Driver {
			name := s.Name
			if s.Process != nil {
				name += " " + s.Process.Command[0]
			}
			return fakeDriver{r.drivers, name}
		}},
	})
	r.controller, r.worker = r.supervised.Of(protocol.RoleController), r.supervised.Of(protocol.RoleWorker)
	r.supervised.findLeft()
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = r.supervised.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return r
}

// want compares what the drivers did since the last call.
func (r *supervisedRig) want(steps ...string) {
	r.Helper()
	synctest.Wait()
	r.drivers.mu.Lock()
	defer r.drivers.mu.Unlock()
	if !slices.Equal(r.drivers.log, steps) {
		r.Errorf("got %q, want %q", r.drivers.log, steps)
	}
	r.drivers.log = nil
}

func (r *supervisedRig) wantRunning(g *Group, want Running) {
	r.Helper()
	synctest.Wait()
	got := g.Running().Get()
	got.Awaiting = ""
	if got != want {
		r.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSupervised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSupervisedRig(t)
		r.wantRunning(r.controller, Running{Any: true}) // a unit may run since another sidecar
		r.wantRunning(r.worker, Running{})
		r.controller.Start()
		r.want() // how to reach etcd is not known
		r.wantRunning(r.controller, Running{Any: true, All: true})
		r.variables.Set(service.Variables{EtcdServers: "one"})
		<-time.After(time.Second)
		r.want("start unit", "start api one")
		r.wantRunning(r.controller, Running{Any: true, All: true, Ready: true})
		r.worker.Start()
		r.want("start proxy /x")

		// Only a service that uses a changed variable is started again.
		r.variables.Set(service.Variables{EtcdServers: "two"})
		<-time.After(5 * time.Second)
		r.want("stop api one", "start api two")
		// So is one whose file changed.
		event.Update(r.loaded, func(all []service.Service) []service.Service {
			all = slices.Clone(all)
			all[2] = process("proxy", protocol.RoleWorker, "/y")
			return all
		})
		<-time.After(5 * time.Second)
		r.want("stop proxy /x", "start proxy /y")

		if err := r.controller.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		r.want("stop api two", "stop unit")
		r.wantRunning(r.controller, Running{})
		r.wantRunning(r.worker, Running{Any: true, All: true, Ready: true})
	})
}

// A service that another sidecar left is stopped, although this one never started it.
func TestSupervised_left(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSupervisedRig(t)
		r.drivers.setStuck(true)
		if err := r.controller.Stop(t.Context()); !errors.Is(err, service.ErrStillRuns) {
			t.Errorf("it still runs, and Stop returned %v", err)
		}
		r.wantRunning(r.controller, Running{Any: true})
		r.drivers.setStuck(false)
		if err := r.controller.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		r.wantRunning(r.controller, Running{})
		r.want("stop api ", "stop unit", "stop api ", "stop unit")
	})
}

// A service that another sidecar left is stopped also if this one was about to start it: it did not
// know how to reach etcd yet, or a service before it was not ready.
func TestSupervised_leftAndNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSupervisedRig(t)
		r.controller.Start()
		r.drivers.setStuck(true)
		if err := r.controller.Stop(t.Context()); !errors.Is(err, service.ErrStillRuns) {
			t.Errorf("it still runs, and Stop returned %v", err)
		}
		r.wantRunning(r.controller, Running{Any: true})
		r.want("stop unit")
		r.drivers.setStuck(false)
		r.controller.Start()
		if err := r.controller.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		r.want("stop unit")

		event.Update(r.loaded, func(all []service.Service) []service.Service {
			return []service.Service{all[1], all[0], all[2]}
		})
		r.variables.Set(service.Variables{EtcdServers: "one"})
		r.controller.Start()
		r.want("start api one")
		if err := r.controller.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		r.want("stop api one", "stop unit")
		r.wantRunning(r.controller, Running{})
		if err := r.controller.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		r.want() // nothing is left

		// A stop that was given up is not forgotten.
		r.controller.Start()
		r.want("start api one")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.controller.Stop(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := r.controller.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		r.want("stop api one", "stop unit")
	})
}

// A stop right after a start leaves nothing that runs or starts.
func TestSupervised_stopAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSupervisedRig(t)
		r.variables.Set(service.Variables{EtcdServers: "one"})
		for i := range 1000 {
			r.controller.Start()
			for range i % 10 { // so that Stop comes at another moment each time
				runtime.Gosched()
			}
			if err := r.controller.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := r.drivers.count()
			synctest.Wait()
			if now := r.drivers.count(); now != before || len(r.supervised.State().Get().Services) > 0 {
				t.Fatalf("%d steps after Stop, %+v", now-before, r.supervised.State().Get())
			}
		}
	})
}

// A service that does not stop: Stop gives up with its context.
func TestSupervised_stuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSupervisedRig(t)
		r.variables.Set(service.Variables{EtcdServers: "one"})
		r.controller.Start()
		synctest.Wait()
		r.drivers.setStuck(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.controller.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		r.wantRunning(r.controller, Running{Any: true})
	})
}

// A Starter without a gate starts and stops the services of its role.
func TestStarter_ungated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		services := &fakeServices{running: event.New(Running{})}
		roles := event.New(Local{})
		f := newUngated(protocol.RoleWorker, services, roles, slog.New(slog.DiscardHandler))
		want := func(steps ...string) {
			t.Helper()
			synctest.Wait()
			if got := services.read(); !slices.Equal(got, steps) {
				t.Errorf("got %q, want %q", got, steps)
			}
		}
		runInTest(t, f.Run)
		want()
		roles.Set(Local{Roles: worker, Source: FromDisk})
		want("start")
		services.failStops(errors.New("it hangs"))
		roles.Set(Local{Roles: protocol.Roles{Controller: true}, Source: FromCluster})
		<-time.After(time.Second)
		want("stop")
		services.failStops(nil)
		<-time.After(time.Minute)
		want("stop") // it tried again, once
		roles.Set(Local{Roles: worker, Source: FromCluster})
		want("start")
		if err := f.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		want("stop")
		roles.Set(Local{Roles: worker, Source: FromDisk}) // too late
		want()
	})
}

// A service that an earlier sidecar started goes on running if this one never decided about it.
func TestStarter_ungated_leavesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		services := &fakeServices{running: event.New(Running{Any: true})}
		f := newUngated(protocol.RoleWorker, services, event.New(Local{}), slog.New(slog.DiscardHandler))
		runInTest(t, f.Run)
		if err := f.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if got := services.read(); len(got) > 0 {
			t.Errorf("got %q", got)
		}
	})
}

// Where no gate waits for the services, those that an earlier sidecar left are started again, and
// nothing else stops for them: Supervised stops a service that the directory no longer contains.
func TestStarter_ungated_keepsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		services := &fakeServices{running: event.New(Running{Any: true, Left: true})}
		f := newUngated(protocol.RoleWorker, services, event.New(Local{Roles: worker, Source: FromDisk}), slog.New(slog.DiscardHandler))
		runInTest(t, f.Run)
		synctest.Wait()
		if got := services.read(); !slices.Equal(got, []string{"start"}) {
			t.Errorf("got %q", got)
		}
	})
}

// runInTest runs a worker until the test ends.
func runInTest(t *testing.T, w func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}
