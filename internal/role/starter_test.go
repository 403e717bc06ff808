package role

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/status"
)

// fakeServices are ready as soon as the test says so. Each stop takes a second.
type fakeServices struct {
	running *event.Value[Running]

	story   // its mu guards stopErr, too
	stopErr error
}

func (f *fakeServices) Start() {
	f.add("start")
	f.running.Set(Running{Any: true, All: true, Awaiting: "service api is not ready"})
}

func (f *fakeServices) Stop(context.Context) error {
	f.add("stop")
	<-time.After(time.Second)
	if err := f.failure(); err != nil {
		return err
	}
	f.running.Set(Running{})
	return nil
}

// failStops makes each stop fail; nil: they succeed again.
func (f *fakeServices) failStops(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopErr = err
}

func (f *fakeServices) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopErr
}

// steps returns the steps until now.
func (f *fakeServices) steps() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.story.steps)
}

func (f *fakeServices) Running() *event.Value[Running] { return f.running }

// rig is a worker with all that it reads, and plays the sidecar's gate: it opens when the
// worker does not withhold it, and closes at once when it does.
type rig struct {
	t        *testing.T
	services *fakeServices
	roles    *event.Value[Local]
	presence *event.Value[int]
	shown    *event.Value[status.Verdict]
	leads    *event.Value[bool]
	// published: the address is in the Service. It leaves a second after the gate closed.
	published *event.Value[bool]
	stays     bool // the address does not leave
	disk      *Disk
	changing  *event.Value[bool]
	worker    *Starter
}

func newRigAtRest(t *testing.T, left Running, startedFor string) *rig {
	t.Helper()
	disk := NewDisk(filepath.Join(t.TempDir(), "roles.json"))
	if err := disk.SetStartedFor(startedFor); err != nil {
		t.Fatal(err)
	}
	r := &rig{
		t: t, services: &fakeServices{running: event.New(left)}, disk: disk,
		roles: event.New(Local{}), presence: event.New(1), shown: event.New(status.Verdict{}), leads: event.New(false), published: event.New(false),
		changing: event.New(false),
	}
	r.worker = NewStarter(StarterConfig{
		Role: protocol.RoleController, Services: r.services, Roles: r.roles, Presence: held(r.presence), Disk: disk, Release: "1.1.0", Shown: r.shown, Leads: r.leads,
		Published: func() (bool, <-chan struct{}) { return r.published.Load() },
		Changing:  r.changing, ShutdownDelay: 5 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	return r
}

// newRig returns a rig whose worker runs.
func newRig(t *testing.T, left Running, startedFor string) *rig {
	t.Helper()
	r := newRigAtRest(t, left, startedFor)
	r.start()
	return r
}

// start runs the worker, until the test ends.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(r.t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = r.worker.Run(ctx) })
	run.Go(func() { r.gate(ctx) })
	r.t.Cleanup(func() { cancel(); run.Wait() })
}

func (r *rig) gate(ctx context.Context) {
	for {
		withheld, changed := r.worker.Withheld().Load()
		ready := withheld == ""
		if was := r.shown.Get(); was.Ready != ready {
			r.services.add(map[bool]string{true: "gate opens", false: "gate closes"}[ready])
			r.published.Set(r.published.Get() || ready)
			r.shown.Set(status.Verdict{Verdict: protocol.Verdict{Ready: ready}})
			if !ready && !r.stays {
				<-time.After(time.Second)
				r.services.add("address leaves")
				r.published.Set(false)
			}
		}
		if !event.Wait(ctx, changed) {
			return
		}
	}
}

// give sets the roles that the sidecar knows.
func (r *rig) give(isController bool) {
	r.roles.Set(Local{Roles: protocol.Roles{Controller: isController}, Source: FromCluster})
}

// becomeReady makes the services ready.
func (r *rig) becomeReady() {
	synctest.Wait()
	r.services.running.Set(Running{Any: true, All: true, Ready: true})
	synctest.Wait()
}

// want compares what has happened.
func (r *rig) want(steps ...string) {
	r.t.Helper()
	synctest.Wait()
	if got := r.services.steps(); !slices.Equal(got, steps) {
		r.t.Errorf("got %v, want %v", got, steps)
	}
}

func TestStarter_startsAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Running{}, "")
		r.want()
		if nodeservices.MayRegister(r.worker.Facts().Get()) != true {
			t.Error("without the role, nothing holds the registration back")
		}
		r.give(true)
		r.want("start")
		if r.worker.Facts().Get(); nodeservices.MayRegister(r.worker.Facts().Get()) {
			t.Error("the node may register before its services are ready")
		}
		if got := r.worker.Withheld().Get(); !strings.Contains(got, "service api is not ready") {
			t.Errorf("the gate does not say what it waits for: %q", got)
		}
		if got := r.disk.StartedFor(); got != "1.1.0" {
			t.Errorf("on disk: started for %q", got)
		}
		r.becomeReady()
		r.want("start", "gate opens")
		r.leads.Set(true)

		// A service that fails closes no gate.
		r.services.running.Set(Running{Any: true})
		r.want("start", "gate opens", "start")
		r.becomeReady()

		r.give(false)
		r.want("start", "gate opens", "start", "gate closes")
		<-time.After(time.Minute) // it still leads
		r.want("start", "gate opens", "start", "gate closes", "address leaves")
		r.leads.Set(false)
		r.want("start", "gate opens", "start", "gate closes", "address leaves", "stop")
		r.give(true)
		<-time.After(time.Minute)
		r.want("start", "gate opens", "start", "gate closes", "address leaves", "stop", "start")
	})
}

// A gate that is closed for another reason may open while a service is down, unless it stopped to be
// changed. A gate that is open stays open.
func TestStarter_changing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Running{}, "")
		r.give(true)
		r.becomeReady()
		for _, tc := range []struct{ isOpen, changing, withheld bool }{{false, false, false}, {true, true, false}, {false, true, true}} {
			r.shown.Set(status.Verdict{Verdict: protocol.Verdict{Ready: tc.isOpen}})
			r.changing.Set(tc.changing)
			r.services.running.Set(Running{Any: true, Awaiting: "service api is not ready"})
			synctest.Wait()
			if got := r.worker.Withheld().Get(); (got != "") != tc.withheld {
				t.Errorf("%+v: got %q", tc, got)
			}
			r.becomeReady()
			if got := r.worker.Withheld().Get(); got != "" {
				t.Errorf("%+v: all are ready, and the gate is closed: %q", tc, got)
			}
		}
	})
}

// People give the role back while the services stop: the record is not written until they are
// ready again.
func TestStarter_roleIsBackDuringAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Running{}, "")
		r.give(true)
		r.becomeReady()
		r.give(false)
		<-time.After(5*time.Second + 500*time.Millisecond)
		r.want("start", "gate opens", "gate closes", "address leaves", "stop")
		mayRegister := func() bool {
			f := r.worker.Facts().Get()
			f.Wanted = true // in the record
			return nodeservices.MayRegister(f)
		}
		if mayRegister() {
			t.Error("the node may register while its services stop")
		}
		r.give(true)
		<-time.After(time.Second)
		r.want("start", "gate opens", "gate closes", "address leaves", "stop", "start")
		if mayRegister() {
			t.Error("the node may register before its services are ready")
		}
		r.becomeReady()
		if !mayRegister() {
			t.Error("the node may not register with services that are ready")
		}
	})
}

func TestStarter_waitsForTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Running{}, "")
		r.give(true)
		r.becomeReady()
		<-time.After(time.Hour)
		began := time.Now()
		if err := r.worker.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("the stop took %s, want the delay of 5 s and the second that the services take", took)
		}
		r.give(true) // too late
		<-time.After(time.Hour)
		r.want("start", "gate opens", "gate closes", "address leaves", "stop")
	})
}

// Services are stopped when the address has left the Service, with any delay. The wait is limited.
func TestStarter_awaitsTheAddress(t *testing.T) {
	for _, stays := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRigAtRest(t, Running{}, "")
			r.worker.cfg.ShutdownDelay, r.stays = 0, stays
			r.start()
			r.give(true)
			r.becomeReady()
			<-time.After(time.Hour)
			r.give(false)
			if stays {
				<-time.After(nodeservices.MaxAwaitAddress - time.Nanosecond)
				r.want("start", "gate opens", "gate closes")
				<-time.After(time.Nanosecond)
				r.want("start", "gate opens", "gate closes", "stop")
				return
			}
			<-time.After(time.Second)
			r.want("start", "gate opens", "gate closes", "address leaves", "stop")
		})
	}
}

// A sidecar that stops takes the same steps. One that fails does not wait.
func TestServer_stop(t *testing.T) {
	for _, tc := range []struct {
		name          string
		fails, leaves bool
		want          string
		took          time.Duration
	}{
		{"it is asked to", false, true, "gate closes, address leaves, resigns", 5 * time.Second},
		{"the address stays", false, false, "gate closes, resigns", 5 * time.Second},
		{"it fails", true, false, "gate closes, resigns", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRigAtRest(t, Running{None: true, All: true, Ready: true}, "")
			log := slog.New(slog.DiscardHandler)
			s := &Server{controller: r.worker, phase: event.New(phaseWaits), cfg: ServerConfig{
				APIServer: APIServerConfig{Published: r.worker.cfg.Published}, ShutdownDelay: 5 * time.Second, Log: log,
			}}
			s.gate = status.NewGate(status.GateConfig{Local: event.New(protocol.Local{}), Log: log})
			_, gateCloses := s.gate.Verdict().Load()
			s.supervised = NewSupervised(SupervisedConfig{Loaded: event.New([]service.Service{}), Variables: event.New(service.Variables{}), Log: s.cfg.Log})
			leading := supervise.NewGroup(t.Context())
			leading.Start("election", func(ctx context.Context) error {
				<-ctx.Done()
				r.services.add("resigns")
				return ctx.Err()
			})
			r.published.Set(true)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if !tc.fails {
				cancel()
			}
			var run sync.WaitGroup
			run.Go(func() {
				<-gateCloses
				r.services.add("gate closes")
				s.gate.Show(s.gate.Verdict().Get())
			})
			if tc.leaves {
				run.Go(func() {
					<-time.After(time.Second)
					r.services.add("address leaves")
					r.published.Set(false)
				})
			}
			began := time.Now()
			s.stop(ctx, nil, leading)
			if took := time.Since(began); took != tc.took {
				t.Errorf("%s: it took %s, want %s", tc.name, took, tc.took)
			}
			run.Wait()
			if got := strings.Join(r.services.steps(), ", "); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
			}
		})
	}
}

// A sidecar is asked to stop while it waits for its directory. When it gets the directory, it
// starts nothing, with any role.
func TestServer_stopsBeforeItHasTheDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigAtRest(t, Running{}, "")
		f := newUngated(protocol.RoleWorker, r.services, r.roles, slog.New(slog.DiscardHandler))
		s := &Server{controller: r.worker, others: []*Starter{f}, phase: event.New(phaseWaits)}
		s.supervised = NewSupervised(SupervisedConfig{
			Loaded: event.New([]service.Service{}), Variables: event.New(service.Variables{}), Log: slog.New(slog.DiscardHandler),
		})
		s.stopServices(t.Context())
		r.roles.Set(Local{Roles: protocol.Roles{Controller: true, Worker: true}, Source: FromDisk})
		r.start()
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = f.Run(ctx) })
		<-time.After(time.Minute)
		r.want()
		cancel()
		run.Wait()
	})
}

func TestStarter_oldServicesEndFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Running{Any: true, All: true, Ready: true}, "1.0.0")
		<-time.After(time.Minute)
		r.want() // the roles are unknown: the services go on running
		if f := r.worker.Facts().Get(); nodeservices.MayRegister(f) {
			t.Errorf("the node may register beside services of another release: %+v", f)
		}
		r.give(true)
		synctest.Wait()
		if got := r.worker.Withheld().Get(); !strings.Contains(got, "1.0.0") {
			t.Errorf("the gate does not say whose services run: %q", got)
		}
		<-time.After(time.Minute)
		r.want("stop", "start")
	})
}

// A service that is changed is started again alone, and the gate stays open.
func TestStarter_changedService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := newRigAtRest(t, Running{}, ""), newSupervisedRig(t)
		s.variables.Set(service.Variables{EtcdServers: "one"})
		r.worker.cfg.Services = s.controller
		r.start()
		r.give(true)
		<-time.After(time.Minute)
		s.want("stop api one", "stop unit", "start unit", "start api one")
		r.want("gate opens")
		s.variables.Set(service.Variables{EtcdServers: "two"})
		<-time.After(time.Minute)
		s.want("stop api one", "start api two")
		event.Update(s.loaded, func(all []service.Service) []service.Service {
			all = slices.Clone(all)
			all[1] = process("api", protocol.RoleController, "/changed")
			return all
		})
		<-time.After(time.Minute)
		s.want("stop api two", "start api /changed")
		r.want("gate opens")
	})
}

func TestStarter_keepsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Running{Any: true, All: true, Ready: true}, "1.1.0")
		r.give(true)
		r.want("gate opens")
	})
}

func TestStarter_stopFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Running{}, "1.1.0")
		r.give(true)
		synctest.Wait()
		r.services.failStops(context.DeadlineExceeded)
		limited, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := r.worker.Stop(limited); err == nil {
			t.Error("stopped, although a service runs")
		}
		synctest.Wait()
		if steps := r.services.steps(); len(steps) < 4 {
			t.Errorf("it did not try again: %v", steps)
		}
	})
}

// Services that an earlier sidecar left go on running if this one never decides about them.
func TestStarter_leavesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Running{Any: true}, "1.0.0")
		if err := r.worker.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.want()
	})
}

// The delay counts from the moment when the gate closed, for any reason, and however long it
// was open.
func TestStarter_delayAfterTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Running{}, "")
		r.give(true)
		r.becomeReady()
		<-time.After(time.Hour)
		r.shown.Set(status.Verdict{}) // the record lost the role, and the gate saw it first
		synctest.Wait()
		r.give(false)
		<-time.After(4 * time.Second)
		r.want("start", "gate opens")
		<-time.After(2 * time.Second)
		r.want("start", "gate opens", "stop")
	})
}

// Another sidecar may use the node ID: this one starts nothing before it owns the presence,
// or etcd did not answer for a while.
func TestStarter_waitsForThePresence(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRigAtRest(t, Running{}, "")
			r.presence.Set(0)
			r.start()
			r.give(true)
			r.want()
			if got := r.worker.Withheld().Get(); !strings.Contains(got, "checks that no other one has its node ID") {
				t.Errorf("the gate does not have what it waits for: %q", got)
			}
			if answers {
				r.presence.Set(1)
			} else {
				<-time.After(presencePatience - time.Nanosecond)
				r.want()
				<-time.After(time.Nanosecond)
			}
			r.want("start")
			r.presence.Set(0) // it was there once
			r.becomeReady()
			r.want("start", "gate opens")
		})
	}
}

// A node takes part in the election only with services that are ready: when it gets the
// role back, too.
func TestServer_whileServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Running{}, "")
		s := &Server{controller: r.worker}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() {
			err := s.whileServing(func(ctx context.Context) error {
				r.services.add("campaigns")
				r.leads.Set(true)
				<-ctx.Done()
				r.services.add("resigns")
				r.leads.Set(false)
				return ctx.Err()
			})(ctx)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		})
		r.give(true)
		r.want("start")
		r.becomeReady()
		r.wantAll("start", "gate opens", "campaigns")
		r.give(false)
		<-time.After(10 * time.Second)
		r.wantAll("start", "gate opens", "campaigns", "gate closes", "resigns", "address leaves", "stop")
		r.give(true)
		r.wantAll("start", "gate opens", "campaigns", "gate closes", "resigns", "address leaves", "stop", "start")
		r.becomeReady()
		r.wantAll("start", "gate opens", "campaigns", "gate closes", "resigns", "address leaves", "stop", "start", "gate opens", "campaigns")
		// A service that fails by itself ends no campaign.
		r.services.running.Set(Running{Any: true, Awaiting: "service api is not ready"})
		r.wantAll("start", "gate opens", "campaigns", "gate closes", "resigns", "address leaves", "stop", "start", "gate opens", "campaigns", "start")
		cancel()
		run.Wait()
	})
}

// A worker that could not be stopped ends the node, also if the services stop: none starts beside
// it.
func TestServer_whileServingStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Running{}, "")
		s := &Server{controller: r.worker}
		ctx, cancel := context.WithCancel(t.Context())
		stuck, result := errors.New("stuck"), make(chan error, 1)
		var run sync.WaitGroup
		run.Go(func() {
			result <- s.whileServing(func(ctx context.Context) error {
				r.services.add("campaigns")
				<-ctx.Done()
				return errors.Join(stuck, context.Cause(ctx)) // as the election does
			})(ctx)
		})
		r.give(true)
		r.becomeReady()
		r.wantAll("start", "gate opens", "campaigns")
		r.give(false)
		<-time.After(10 * time.Second)
		r.give(true)
		r.becomeReady()
		r.wantAll("start", "gate opens", "campaigns", "gate closes", "address leaves", "stop", "start", "gate opens")
		cancel()
		run.Wait()
		if err := <-result; !errors.Is(err, stuck) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// wantAll is want for what two workers do at the same moment: the order of these does not
// count.
func (r *rig) wantAll(steps ...string) {
	r.t.Helper()
	synctest.Wait()
	got := r.services.steps()
	for i := 1; i < len(got); i++ {
		if pair := got[i-1] + "," + got[i]; pair == "campaigns,gate opens" || pair == "resigns,gate closes" {
			got[i-1], got[i] = got[i], got[i-1]
		}
	}
	if !slices.Equal(got, steps) {
		r.t.Errorf("got %v, want %v", got, steps)
	}
}

// Without services, nothing waits for them.
func TestStarter_none(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Running{None: true, All: true, Ready: true}, "")
		r.want("gate opens")
		if !nodeservices.MayRegister(r.worker.Facts().Get()) {
			t.Error("something holds the registration back")
		}
		r.give(true)
		r.give(false)
		r.want("gate opens")
	})
}

// Services start only when their release is on disk: otherwise a sidecar of the next release would
// take them for its own.
func TestStarter_diskFails(t *testing.T) {
	r := newRigAtRest(t, Running{}, "1.1.0")
	r.worker.cfg.Disk = NewDisk(filepath.Join(t.TempDir(), "missing", "roles.json"))
	f := nodeservices.Facts{Known: true, Wanted: true, GateClosed: true}
	if step := nodeservices.Next(f); step != nodeservices.StartServices {
		t.Fatalf("got %v", step)
	}
	if again := r.worker.step(t.Context(), f, Running{}); again == nil || r.services.running.Get().Any || r.worker.started {
		t.Errorf("got started %t, and %+v; want another attempt after a pause", r.worker.started, r.services.running.Get())
	}
}
