package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func wait(d time.Duration) { <-time.After(d) }

// Services start in their order, each when the one before it is ready, and stop in the reverse
// order, each when the one after it has ended.
func TestSupervisor_order(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() {
			for _, name := range []string{"a", "b", "c"} {
				r.plans[name] = fakePlan{takes: time.Second}
			}
		})
		r.Reload(append(named("a", "b"), plain("c")...))
		r.wantStory(t, "start a")
		r.wantPhases(t, "a Running", "b Waiting", "c Waiting")
		r.set(func() { r.ready["a"] = true })
		wait(2 * time.Second)
		r.wantStory(t, "start b")
		r.wantPhases(t, "a Running ready", "b Running", "c Waiting")
		r.set(func() { r.ready["b"] = true })
		wait(2 * time.Second)
		r.wantStory(t, "start c")
		r.wantPhases(t, "a Running ready", "b Running ready", "c Running ready")
		if err := r.awaitReady(t.Context()); err != nil {
			t.Error(err)
		}
		// One that is no longer ready holds up no service that started.
		r.set(func() { r.ready["a"] = false })
		wait(time.Minute)
		r.wantStory(t)
		r.wantPhases(t, "a Running", "b Running ready", "c Running ready")
		r.cancel()
		r.wantStory(t, "stop c")
		r.wantPhases(t, "a Running", "b Running ready", "c Stopping")
		wait(time.Second)
		r.wantStory(t, "stopped c", "stop b")
		<-r.done
		r.wantStory(t, "stopped b", "stop a", "stopped a")
		r.wantPhases(t, "a Stopped", "b Stopped", "c Stopped")
		if !errors.Is(r.err, context.Canceled) || errors.Is(r.err, ErrStillRuns) {
			t.Errorf("got %v", r.err)
		}
	})
}

// While the sidecar stops, a service that ends by itself is not started again, and none starts that
// waited. Those that run go on until they are stopped.
func TestSupervisor_endStarts(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() { r.plans["b"], r.plans["c"] = fakePlan{lasts: time.Second}, fakePlan{lasts: time.Millisecond} })
		services := append(plain("c", "a", "b"), named("d", "e")...)
		services[0].Optional = true
		r.Reload(services)
		wait(900 * time.Millisecond) // c ends again and again, and e waits for d
		r.read()
		r.EndStarts()
		wait(time.Minute)
		r.wantStory(t, "end b")
		r.wantPhases(t, "c Waiting", "a Running ready", "b Waiting", "d Running", "e Waiting")
		r.set(func() { r.ready["d"] = true })
		wait(time.Minute)
		r.wantStory(t)
		r.Reload(nil)
		r.wantStory(t, "stop d", "stopped d", "stop a", "stopped a")
	})
}

// Neither the state nor the next service waits for one that is not required.
func TestSupervisor_optional(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		services := named("a", "b")
		services[0].Optional = true
		r.Reload(services)
		synctest.Wait()
		if story := r.read(); !slices.Contains(story, "start a") || !slices.Contains(story, "start b") {
			t.Errorf("got %q, want both started", story)
		}
		if st := r.State().Get(); st.Unready(services) != `service "b" is not ready (Running): not yet` {
			t.Errorf("b is required: got %s", st.Unready(services))
		}
		r.set(func() { r.ready["b"] = true })
		wait(time.Minute)
		if a, b := r.status(t, "a"), r.status(t, "b"); a.Ready || !b.Ready {
			t.Errorf("got %+v, %+v", a, b)
		}
		if st := r.State().Get(); st.Unready(services) != "" || !st.Runs(services) {
			t.Errorf("only a is not ready, which is not required: got %s", st.Unready(services))
		}
		services[0].Optional = false
		if st := r.State().Get(); st.Unready(services) == "" {
			t.Error("a is required now: got ready")
		}
	})
}

// A fault ends with the file that caused it, and a service that this sidecar stops did not fail.
func TestSupervisor_changedFile(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() { r.plans["a"] = fakePlan{lasts: time.Second} })
		before := plain("a")
		r.Reload(before)
		wait(10 * time.Second)
		if st := r.status(t, "a"); st.Restarts == 0 || st.LastExit == "" {
			t.Fatalf("got %+v", st)
		}
		r.set(func() { delete(r.plans, "a") })
		after := plain("a")
		after[0].StopTimeout = time.Hour
		after[0].Source = Source{File: "a.yaml"}
		r.Reload(after)
		wait(time.Minute)
		if st := r.status(t, "a"); st.Restarts != 0 || st.LastExit != "" || st.File != "a.yaml" {
			t.Errorf("after the change: got %+v", st)
		}
		r.read()
		moved := plain("a")
		moved[0].StopTimeout, moved[0].Source = time.Hour, Source{File: "b.yaml"}
		r.Reload(moved)
		wait(time.Minute)
		r.wantStory(t) // where it is written changes nothing
		if st := r.status(t, "a"); st.File != "b.yaml" {
			t.Errorf("got %+v", st)
		}
		r.cancel()
		<-r.done
		if st := r.status(t, "a"); st.LastExit != "" {
			t.Errorf("it was stopped: got %+v", st)
		}
	})
}

// The lines of a service that does not want to show them are nowhere in the state.
func TestSupervisor_noLines(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() { r.ready["a"] = false })
		services := named("a")
		services[0].Process = &Process{Command: []string{"/bin/sh"}, Output: Output{Status: StatusNone}}
		r.Reload(services)
		wait(time.Minute)
		if got := r.status(t, "a"); len(got.LastLines) != 0 {
			t.Errorf("got %+v, want no lines", got)
		}
	})
}

// The last lines of a service are those at the last change.
func TestSupervisor_lastLines(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		want := func(count int) {
			t.Helper()
			got := r.status(t, "a")
			shown := count // all local users can read the report
			if got.Ready {
				shown = 0
			}
			if len(got.LastLines) != count || len(got.Report().LastLines) != shown {
				t.Errorf("got %q, and shows %q, want %d and %d lines", got.LastLines, got.Report().LastLines, count, shown)
			}
		}
		r.set(func() { r.ready["a"] = true })
		r.Reload(named("a"))
		wait(time.Minute)
		want(1)
		_, changed := r.State().Load()
		r.set(func() { r.lines = 2 })
		wait(time.Minute)
		want(1)
		select {
		case <-changed:
			t.Error("a line wakes those that follow the state")
		default:
		}
		r.set(func() { r.ready["a"] = false })
		wait(time.Minute)
		want(2)
		r.set(func() { r.lines = 3 })
		r.Reload(nil)
		wait(time.Minute)
		r.Reload(named("a"))
		wait(time.Minute)
		want(3)
	})
}

// A service that ends is started again with pauses that grow, takes no other down, and after a good
// run the pauses begin again.
func TestSupervisor_restarts(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() { r.plans["a"] = fakePlan{lasts: time.Second} })
		begin := time.Now()
		r.Reload(plain("a", "b"))
		wait(settleTime)
		r.wantStory(t, "start a", "start b")
		var gaps []time.Duration
		for range 10 {
			for n := r.status(t, "a").Restarts; r.status(t, "a").Restarts == n; {
				_, changed := r.State().Load()
				<-changed
			}
			gaps = append(gaps, time.Since(begin)-time.Second)
			begin = time.Now()
		}
		for i, gap := range gaps {
			want := min(minPause<<i, maxPause)
			if gap != want {
				t.Errorf("pause %d: got %s, want %s", i, gap, want)
			}
		}
		st := r.status(t, "a")
		if st.LastExit != "exit status 1" || st.Restarts != 10 || len(st.LastLines) != 1 || st.LastLines[0] != "a line of a" {
			t.Errorf("got %+v", st)
		}
		r.set(func() { r.plans["a"] = fakePlan{lasts: settleTime + goodRun, onlyOne: true} })
		wait(time.Second + maxPause + settleTime + goodRun)
		r.wantPhases(t, "a BackOff", "b Running ready")
		wait(minPause)
		r.wantPhases(t, "a Running", "b Running ready")
		if run := r.status(t, "a").Run(time.Now()); run.Served {
			t.Errorf("the instance before was ready, and this one counts: %+v", run)
		}
		wait(settleTime)
		r.wantPhases(t, "a Running ready", "b Running ready")
		if run := r.status(t, "a").Run(time.Now()); !run.Served {
			t.Errorf("it is ready: %+v", run)
		}
		if b := r.status(t, "b"); b.Restarts != 0 || b.LastExit != "" {
			t.Errorf("got %+v", b)
		}
		r.read()
	})
}

// A service without a probe that ends at once is never ready, however often it is started.
func TestSupervisor_endsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() { r.plans["a"] = fakePlan{lasts: settleTime - time.Millisecond} })
		r.Reload(plain("a", "b"))
		for range 5 {
			_, changed := r.State().Load()
			<-changed
			if r.status(t, "a").Ready {
				t.Fatal("ready")
			}
		}
		wait(time.Hour)
		for _, line := range r.read() {
			if line == "start b" {
				t.Error("the service after it was started")
			}
		}
	})
}

// The result of a probe belongs to the instance that runs.
func TestSupervisor_readyIsOfTheNewInstance(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() {
			r.ready["a"] = true
			r.plans["a"] = fakePlan{lasts: 5 * time.Second, onlyOne: true}
		})
		r.Reload(named("a"))
		r.wantPhases(t, "a Running ready")
		wait(5 * time.Second)
		r.wantPhases(t, "a BackOff")
		r.set(func() { r.ready["a"] = false })
		wait(minPause)
		r.wantPhases(t, "a Running")
		if st := r.status(t, "a"); st.Problem != "not yet" || st.LastExit != "exit status 1" {
			t.Errorf("got %+v", st)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.awaitReady(ctx); err == nil || !strings.HasPrefix(err.Error(), `service "a" is not ready (Running): not yet: `) {
			t.Errorf("got %v", err)
		}
		r.set(func() { r.ready["a"] = true })
		wait(2 * time.Second)
		r.wantPhases(t, "a Running ready")
		// The driver replaces the instance by itself, as systemd does.
		var replaced func()
		r.set(func() { r.ready["a"], replaced = false, r.runs["a"].running })
		replaced()
		r.wantPhases(t, "a Running")
		if st := r.status(t, "a"); st.Restarts != 2 {
			t.Errorf("got %+v", st)
		}
	})
}

// When systemd replaces an instance, the readiness of the one before ends with it, and so does its
// probe: only a probe of the new instance makes the service ready.
func TestSupervisor_replacedInstance(t *testing.T) {
	const delay = 20 * time.Second
	inBubble(t, func(t *testing.T, r *rig) {
		services := named("a")
		services[0].Readiness.InitialDelay = delay
		replace := func() {
			var replaced func()
			r.set(func() { replaced = r.runs["a"].running })
			replaced()
		}
		r.Reload(services)
		wait(delay + time.Second)
		r.wantPhases(t, "a Running") // it is probed again and again
		replace()
		r.set(func() { r.ready["a"] = true })
		wait(delay - time.Millisecond)
		r.wantPhases(t, "a Running")
		wait(time.Second)
		r.wantPhases(t, "a Running ready")
		replace()
		r.wantPhases(t, "a Running")
		wait(delay)
		r.wantPhases(t, "a Running ready")
	})
}

// A reload restarts only changed services. Removed ones end before anything starts.
func TestSupervisor_reload(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() { r.plans["b"] = fakePlan{takes: time.Second} })
		r.Reload(plain("a", "b", "c"))
		wait(3 * settleTime)
		r.wantStory(t, "start a", "start b", "start c")
		r.Reload(plain("a", "b", "c"))
		r.wantStory(t)
		changed := plain("a", "b", "c")
		changed[1].Process.Command = []string{"/new"}
		r.Reload(changed)
		r.wantStory(t, "stop b")
		r.wantPhases(t, "a Running ready", "b Stopping", "c Running ready")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := r.awaitReady(ctx); err == nil {
			t.Error("ready while a service stops")
		}
		wait(time.Second)
		r.wantStory(t, "stopped b", "start b")
		wait(settleTime)
		r.wantPhases(t, "a Running ready", "b Running ready", "c Running ready")
		renamed := append(plain("a", "x"), changed[2])
		r.Reload(renamed)
		r.wantStory(t, "stop b")
		wait(time.Second)
		r.wantStory(t, "stopped b", "start x")
		wait(settleTime)
		r.wantPhases(t, "a Running ready", "x Running ready", "c Running ready")
		r.cancel()
		<-r.done
		r.wantStory(t, "stop c", "stopped c", "stop x", "stopped x", "stop a", "stopped a")
	})
}

// awaitReady does not take the service before a reload for the one after it.
func TestSupervisor_awaitReadyAfterReload(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() { r.plans["a"] = fakePlan{takes: time.Second, onlyOne: true} })
		r.Reload(plain("a"))
		if err := r.awaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		changed := plain("a")
		changed[0].Process.Command = []string{"/new"}
		r.Reload(changed)
		if err := r.awaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.wantStory(t, "start a", "stop a", "stopped a", "start a")
	})
}

// A service can be stopped at any time: while it waits, is started, or pauses. During a pause the
// driver is asked: an instance of an earlier sidecar may run.
func TestSupervisor_stopDuringAPause(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() { r.plans["a"] = fakePlan{lasts: time.Second} })
		r.Reload(named("a", "b"))
		wait(time.Second)
		r.wantPhases(t, "a BackOff", "b Waiting")
		r.cancel()
		<-r.done
		r.wantStory(t, "start a", "end a", "stop a", "stopped a")
		r.wantPhases(t, "a Stopped", "b Waiting")
	})
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() { r.plans["a"] = fakePlan{lasts: time.Second, stuck: 1} })
		r.Reload(named("a"))
		wait(time.Second)
		r.wantPhases(t, "a BackOff")
		r.Reload(plain("b"))
		r.wantStory(t, "start a", "end a", "stop a")
		r.wantPhases(t, "b Waiting", "a Stopping")
		wait(maxPause)
		r.wantStory(t, "stop a", "stopped a", "start b")
	})
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() { r.plans["a"] = fakePlan{lasts: time.Second, stuck: 1} })
		r.Reload(named("a"))
		wait(time.Second)
		r.wantPhases(t, "a BackOff")
		r.cancel()
		<-r.done
		if !errors.Is(r.err, ErrStillRuns) {
			t.Errorf("got %v", r.err)
		}
	})
}

// A driver that panics while it stops a service has not stopped it.
func TestSupervisor_panicDuringAStop(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() { r.plans["a"] = fakePlan{panics: "stop"} })
		r.Reload(plain("a"))
		r.wantStory(t, "start a")
		r.Reload(plain("b"))
		r.wantStory(t, "stop a")
		if st := r.status(t, "a"); st.Phase != Stopping || !strings.HasPrefix(st.Problem, "panic of the driver: ") {
			t.Errorf("got %+v", st)
		}
		r.set(func() { r.plans["a"] = fakePlan{} })
		wait(maxPause)
		r.wantStory(t, "stop a", "stopped a", "start b")
	})
}

// One that cannot be stopped: nothing starts in its place until it has, and the end of the
// supervisor says so.
func TestSupervisor_stillRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() { r.plans["a"] = fakePlan{stuck: 2} })
		r.Reload(plain("a"))
		r.wantStory(t, "start a")
		r.Reload(plain("b"))
		r.wantStory(t, "stop a")
		if st := r.status(t, "a"); st.Phase != Stopping || st.Problem != "it hangs" {
			t.Errorf("got %+v", st)
		}
		wait(2 * maxPause)
		r.wantStory(t, "stop a", "stop a", "stopped a", "start b")
	})
	inBubble(t, func(t *testing.T, r *rig) {
		r.set(func() { r.plans["a"] = fakePlan{stuck: 5} })
		r.Reload(plain("a"))
		synctest.Wait()
		r.cancel()
		<-r.done
		if !errors.Is(r.err, ErrStillRuns) || !strings.Contains(r.err.Error(), `"a": it hangs`) {
			t.Errorf("got %v", r.err)
		}
	})
}

// A panic is the end of an instance, and of no more.
func TestSupervisor_panics(t *testing.T) {
	for _, where := range []string{"new", "run", "running", "lines", "probe"} {
		t.Run(where, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.set(func() {
					r.plans["a"] = fakePlan{panics: where}
					r.ready["b"] = true
				})
				services := named("b", "a")
				r.Reload(services)
				wait(time.Minute)
				if b := r.status(t, "b"); !b.Ready || b.Restarts != 0 {
					t.Errorf("got %+v", b)
				}
				a := r.status(t, "a")
				switch where {
				case "probe":
					if a.Ready || !strings.HasPrefix(a.Problem, "panic of the driver: probe") {
						t.Errorf("got %+v", a)
					}
				case "lines":
					if a.Phase != Running || len(a.LastLines) != 0 {
						t.Errorf("got %+v", a)
					}
				default:
					if a.Restarts < 3 || !strings.HasPrefix(a.LastExit, "panic of the driver: ") {
						t.Errorf("got %+v", a)
					}
				}
				r.read()
				// It works when the panic is over.
				r.set(func() {
					r.plans["a"] = fakePlan{}
					r.ready["a"] = true
				})
				wait(2 * maxPause)
				r.wantPhases(t, "b Running ready", "a Running ready")
			})
		})
	}
}

// Services of a role that the node lost are stopped without a start.
func TestStopAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes()
		if err := StopAll(t.Context(), Config{NewDriver: f.newDriver, NewProbe: f.newProbe}, plain("a", "b")); err != nil {
			t.Error(err)
		}
		if got := strings.Join(f.read(), ", "); got != "stop b, stopped b, stop a, stopped a" {
			t.Errorf("got %s", got)
		}
		f.plans["a"] = fakePlan{stuck: 1}
		if err := StopAll(t.Context(), Config{NewDriver: f.newDriver}, plain("a")); !errors.Is(err, ErrStillRuns) {
			t.Errorf("got %v", err)
		}
		for _, where := range []string{"new", "stop"} {
			f.plans["a"] = fakePlan{panics: where}
			if err := StopAll(t.Context(), Config{NewDriver: f.newDriver}, plain("a")); !errors.Is(err, ErrStillRuns) {
				t.Errorf("a panic, %s: got %v", where, err)
			}
		}
	})
}
