package service

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/child"
	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
	"github.com/lockstep-dev/lockstep/internal/role/service/process"
	"github.com/lockstep-dev/lockstep/internal/role/service/readiness"
)

// limit is far above every limit that is tested, so that a slow machine fails no test.
const limit = time.Minute

// Timing is tested with fakes, since no real child runs in a bubble. These tests hold the
// fake to the behavior of a real process.
func TestDrivers(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		testDriver(t, func(*testing.T) driver.Driver {
			f := newFakes()
			f.plans["ends"] = fakePlan{lasts: time.Millisecond}
			return &fakeDriver{f, "runs"}
		}, func(*testing.T) driver.Driver {
			f := newFakes()
			f.plans["ends"] = fakePlan{lasts: time.Millisecond}
			return &fakeDriver{f, "ends"}
		})
	})
	t.Run("process", func(t *testing.T) {
		starter := child.NewStarter()
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		var wg sync.WaitGroup
		wg.Go(func() { _ = starter.Run(ctx) })
		t.Cleanup(func() { cancel(); wg.Wait() })
		sh := func(script string) driver.Driver {
			return process.New(process.Config{Process: Process{Command: []string{"/bin/sh", "-c", script}}, Starter: starter, StopTimeout: limit})
		}
		testDriver(t, func(*testing.T) driver.Driver {
			return sh("trap 'exit 0' TERM; echo a line of runs; while :; do sleep 0.05; done")
		}, func(*testing.T) driver.Driver { return sh("exit 1") })
	})
}

// testDriver tests the supervisor's expectations of a driver. runs returns one whose instance
// runs until it is stopped, ends one whose instance ends by itself.
func testDriver(t *testing.T, runs func(*testing.T) driver.Driver, ends func(*testing.T) driver.Driver) {
	t.Helper()
	t.Run("ends by itself, again and again", func(t *testing.T) {
		d := ends(t)
		for range 3 {
			called := 0
			exit := d.Run(t.Context(), func() { called++ })
			if exit.Reason != "exit status 1" || exit.StillRuns || called != 1 {
				t.Errorf("got %+v, running called %d times", exit, called)
			}
		}
	})
	t.Run("is stopped", func(t *testing.T) {
		d := runs(t)
		ctx, cancel := context.WithCancel(t.Context())
		exit := d.Run(ctx, func() {
			deadline := time.Now().Add(limit)
			for len(d.LastLines()) == 0 && time.Now().Before(deadline) {
				<-time.After(time.Millisecond)
			}
			cancel()
		})
		if exit.Reason != "exit status 0" || exit.StillRuns {
			t.Errorf("got %+v", exit)
		}
		if got := d.LastLines(); len(got) == 0 || !strings.Contains(got[0], "a line of runs") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("starts nothing if ctx has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		exit := runs(t).Run(ctx, func() { t.Error("it was started") })
		if exit.Reason == "" || exit.StillRuns {
			t.Errorf("got %+v", exit)
		}
	})
	t.Run("a panic in running leaves nothing behind", func(t *testing.T) {
		d := runs(t)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not arrive")
				}
			}()
			d.Run(t.Context(), func() { panic("in running") })
		}()
		ctx, cancel := context.WithCancel(t.Context())
		if exit := d.Run(ctx, cancel); exit.StillRuns {
			t.Errorf("got %+v", exit)
		}
	})
}

// A supervisor with real processes: order, readiness, restart of one alone, and stop.
func TestSupervisor_processes(t *testing.T) {
	dir := t.TempDir()
	story := filepath.Join(dir, "story")
	script := func(name string) string {
		return "echo start " + name + " >>" + story + "; trap 'rm -f " + filepath.Join(dir, name) + "; echo stop " + name + " >>" + story + "; exit 0' TERM; " +
			"touch " + filepath.Join(dir, name) + "; while :; do sleep 0.05; done"
	}
	file := func(name, extra string) string {
		return "apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: " + name + "}\nrole: kubernetes_controller\n" +
			"process:\n  command: [/bin/sh, -c]\n  args: [\"" + script(name) + extra + "\"]\n  env: [{name: X, value: $(NODE_ID)}]\n" +
			"readiness: {exec: {command: [/bin/sh, -c, \"test -e " + filepath.Join(dir, name) + "\"]}}\nstopTimeout: 60s\n"
	}
	services := writeDir(t, map[string]string{"1.yaml": file("one", ""), "2.yaml": file("two", "")})
	read := func() []Service {
		list, err := Load(services)
		if err != nil {
			t.Fatal(err)
		}
		list, err = Expand(list, Variables{NodeID: "n"})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	s, stop := supervise(t, read()...)
	defer stop() // it may be called twice
	awaitReady(t, s)
	if err := os.WriteFile(filepath.Join(services, "1.yaml"), []byte(file("one", "; true")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Reload(read())
	awaitReady(t, s)
	stop()
	text, err := os.ReadFile(story)
	want := "start one, start two, stop one, start one, stop two, stop one"
	if got := strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ", "); got != want || err != nil {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func awaitReady(t *testing.T, s *Supervisor) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := s.awaitReady(ctx); err != nil {
		t.Fatal(err)
	}
}

// A process is not started while another program answers its probe, and is when that has ended.
func TestSupervisor_anotherProgram(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	started := filepath.Join(t.TempDir(), "started")
	svc := Service{
		Name: "api", Role: "kubernetes_controller", StopTimeout: limit,
		Process:   &Process{Command: []string{"/bin/sh", "-c", "echo >" + started + "; exec sleep 600"}},
		Readiness: &readiness.Config{TCPSocket: &readiness.TCPSocket{Address: l.Addr().String()}, Period: limit, Timeout: limit, SuccessThreshold: 1, FailureThreshold: 1},
	}
	s, stop := supervise(t, svc)
	defer stop()
	await := func(what string, cond func(Status) bool) {
		t.Helper()
		timer := time.After(limit)
		for {
			now, changed := s.State().Load()
			st, known := now.find("api")
			if known && st.Ready {
				t.Fatalf("the other program made it ready: %+v", st)
			}
			if known && cond(st) {
				return
			}
			select {
			case <-changed:
			case <-timer:
				t.Fatalf("%s: got %+v", what, st)
			}
		}
	}
	await("two attempts", func(st Status) bool {
		return st.Restarts > 0 && strings.HasPrefix(st.LastExit, "another program answers at "+l.Addr().String()+` before "api" was started: process `)
	})
	if _, err := os.Stat(started); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was started beside another program: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	await("it runs", func(st Status) bool { return st.Phase == Running })
}

// supervise starts a supervisor of services. stop ends it, and with it what it started.
func supervise(t *testing.T, services ...Service) (s *Supervisor, stop func()) {
	t.Helper()
	s = New(Config{})
	s.Reload(services)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx) // it ends with ctx
	}()
	return s, func() {
		cancel()
		<-done
	}
}
