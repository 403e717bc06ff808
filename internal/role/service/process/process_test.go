package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/child"
	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
	"github.com/lockstep-dev/lockstep/test/logs"
)

// limit is far above every limit that is tested, so that a slow machine fails no test.
const limit = time.Minute

// newStarter returns a starter that runs until the test ends.
func newStarter(t *testing.T) *child.Starter {
	t.Helper()
	s := child.NewStarter()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

// service is a driver that runs one of this binary's programs.
type service struct {
	*Driver
	log    *logs.Buffer
	cancel context.CancelFunc
	exit   chan driver.Exit // room for one
	runs   chan struct{}    // closed when running was called
}

func start(t *testing.T, cfg Config, program ...string) *service {
	t.Helper()
	s := &service{log: &logs.Buffer{}, exit: make(chan driver.Exit, 1), runs: make(chan struct{})}
	if cfg.Command == nil {
		cfg.Command = append([]string{os.Args[0]}, program...)
	}
	if cfg.Starter == nil {
		cfg.Starter = newStarter(t)
	}
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = limit
	}
	cfg.Log = slog.New(slog.NewTextHandler(s.log, nil))
	s.Driver = New(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s.cancel = cancel
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.exit <- s.Run(ctx, func() { close(s.runs) })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return s
}

func (s *service) wantExit(t *testing.T, want string) driver.Exit {
	t.Helper()
	select {
	case exit := <-s.exit:
		if !strings.Contains(exit.Reason, want) || exit.StillRuns {
			t.Errorf("got %+v, want a reason with %q", exit, want)
		}
		return exit
	case <-time.After(limit):
		t.Fatal("not in time: the end of the service")
		return driver.Exit{}
	}
}

// until polls cond, and fails the test if it does not become true.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline, tick := time.After(limit), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// numbers awaits a file with process numbers.
func numbers(t *testing.T, file string) []int {
	t.Helper()
	var out []int
	until(t, "the program runs", func() bool {
		text, err := os.ReadFile(file)
		for word := range strings.FieldsSeq(string(text)) {
			var n int
			if _, err := fmt.Sscan(word, &n); err == nil {
				out = append(out, n)
			}
		}
		return err == nil
	})
	return out
}

// alive reports whether a process runs. Of an orphan that no process waits for, a zombie may
// stay.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func TestRun_exitCodes(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0":                  "exit status 0",
		"exit 3":                  "exit status 3",
		"exit 300":                "exit status 44",
		"kill -SEGV $$":           "signal: segmentation fault",
		"kill -KILL $$":           "signal: killed; if no user did that, the machine had no memory left",
		"sleep 1000 & exit 5":     "exit status 5", // the rest of the group is killed
		"trap '' TERM; kill $$;:": "exit status 0",
	} {
		t.Run(script, func(t *testing.T) {
			start(t, Config{Process: Process{Command: []string{"/bin/sh", "-c", script}}}).wantExit(t, want)
		})
	}
}

func TestRun_startProblems(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"interpreter": "#!/nonexistent/sh\n", "broken": "\x7fELF no program", "text": "no first line\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "mode"), []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"missing": "no such file or directory", "interpreter": "the file exists, but not the interpreter",
		"broken": "exec format error; it is no program", "text": "exec format error; it is no program", "mode": "permission denied",
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Config{Process: Process{Command: []string{filepath.Join(dir, name)}}})
			s.wantExit(t, want)
			select {
			case <-s.runs:
				t.Error("running was called")
			default:
			}
		})
	}
}

// The group gets SIGTERM, and Run returns when all of it has ended.
func TestRun_stop(t *testing.T) {
	t.Run("gracefully", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "pid")
		s := start(t, Config{}, "graceful", file)
		numbers(t, file)
		s.cancel()
		s.wantExit(t, "exit status 0")
		if got := s.LastLines(); len(got) != 1 || got[0] != "stopping" {
			t.Errorf("got the lines %q", got)
		}
	})
	t.Run("a process of the group needs longer than its leader", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "pid")
		s := start(t, Config{}, "slowgroup", file)
		pid := numbers(t, file)[0]
		s.cancel()
		s.wantExit(t, "signal: terminated")
		if alive(pid) {
			t.Error("it still runs")
		}
		if _, err := os.Stat(file + ".stopped"); err != nil {
			t.Errorf("it did not stop gracefully: %v", err)
		}
	})
	t.Run("SIGTERM is ignored", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "pid")
		s := start(t, Config{StopTimeout: 50 * time.Millisecond}, "stubborn", file)
		pid := numbers(t, file)[0]
		s.cancel()
		s.wantExit(t, "did not stop within 50ms after SIGTERM, and was killed: signal: killed")
		if alive(pid) {
			t.Error("it still runs")
		}
	})
	t.Run("before it was started", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		d := New(Config{Process: Process{Command: []string{"/bin/true"}}, Starter: child.NewStarter()})
		if exit := d.Run(ctx, func() { t.Error("it was started") }); exit.Reason == "" || exit.StillRuns {
			t.Errorf("got %+v", exit)
		}
	})
}

// The leader is killed: the rest of its group does not outlive it.
func TestRun_groupEndsWithItsLeader(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	s := start(t, Config{}, "group", file)
	pids := numbers(t, file)
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.wantExit(t, "signal: killed")
	until(t, "the group has ended", func() bool { return !alive(pids[1]) })
}

// The sidecar is killed with SIGKILL: its child ends. Processes that the child started go on
// (docs/roles.md#process), so the test ends them.
func TestRun_sidecarKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	sidecar := exec.Command(os.Args[0], "sidecar", file)
	if err := sidecar.Start(); err != nil {
		t.Fatal(err)
	}
	pids := numbers(t, file)
	t.Cleanup(func() { _ = syscall.Kill(pids[1], syscall.SIGKILL) })
	if err := sidecar.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sidecar.Wait()
	until(t, "the child has ended", func() bool { return !alive(pids[0]) })
}

// remains is a process that did not end after SIGKILL until ended is set, which a test cannot make:
// internal/child shows what such a one reports.
type remains struct{ ended bool }

func (r *remains) Reap() bool { return r.ended }

func (r *remains) Reason() string {
	return map[bool]string{true: "signal: killed", false: "it waits for a disk"}[r.ended]
}

// A process that did not end after SIGKILL keeps the next one from starting, until it has ended.
func TestRun_remains(t *testing.T) {
	d, left := New(Config{}), &remains{}
	d.stuck = left
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if exit := d.Run(ctx, func() {}); exit != (driver.Exit{Reason: "it waits for a disk", StillRuns: true}) {
		t.Errorf("it runs, and Run returned %+v", exit)
	}
	left.ended = true
	if exit := d.Run(ctx, func() {}); exit != (driver.Exit{Reason: "signal: killed"}) {
		t.Errorf("it has ended, and Run returned %+v", exit)
	}
}

// A stop after the end says how the newest instance ended.
func TestRun_stopAfterTheEnd(t *testing.T) {
	s := start(t, Config{Process: Process{Command: []string{"/bin/sh", "-c", "exit 3"}}})
	s.wantExit(t, "exit status 3")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if exit := s.Run(ctx, func() { t.Error("it was started") }); exit != (driver.Exit{Reason: "exit status 3"}) {
		t.Errorf("got %+v", exit)
	}
}

// Threads end when a goroutine ends that is locked to its thread. No child was started from one
// of them.
func TestRun_threadsEnd(t *testing.T) {
	starter := newStarter(t)
	var services []*service
	for range 10 {
		// Threads come and go while children start.
		lockAndEnd(10)
		s := start(t, Config{Starter: starter}, "forever")
		<-s.runs
		services = append(services, s)
	}
	lockAndEnd(50)
	for _, s := range services {
		select {
		case exit := <-s.exit:
			t.Errorf("a service ended: %+v", exit)
		default:
		}
	}
	for _, s := range services {
		s.cancel()
		s.wantExit(t, "signal: terminated")
	}
}

func lockAndEnd(n int) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(runtime.LockOSThread)
	}
	wg.Wait()
}

// A process that left the group keeps the output open: Run returns all the same.
func TestRun_outputHeldOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	s := start(t, Config{}, "daemon", file)
	s.wantExit(t, "exit status 0")
	pid := numbers(t, file)[0]
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	if !alive(pid) {
		t.Error("the process that left the group does not run: this test shows nothing")
	}
	if got := s.LastLines(); len(got) != 1 || got[0] != "left" {
		t.Errorf("got the lines %q", got)
	}
}

func TestRun_output(t *testing.T) {
	s := start(t, Config{}, "lines")
	s.wantExit(t, "exit status 0")
	got := s.LastLines()
	if len(got) != 4 || got[0] != "short" || got[2] != "after" || got[3] != "no end" {
		t.Errorf("got %d lines: %.80q", len(got), got)
	}
	if len(got[1]) != maxKept+len(child.CutMark) || !strings.HasSuffix(got[1], child.CutMark) {
		t.Errorf("got a line of %d bytes", len(got[1]))
	}
	if text := s.log.String(); !strings.Contains(text, "msg=output line=short") || !strings.Contains(text, `line="no end"`) || len(text) > maxLine+1000 {
		t.Errorf("got a log of %d bytes: %.100s", len(text), text)
	}
}

func TestRun_file(t *testing.T) {
	dir := t.TempDir()
	file := Output{File: filepath.Join(dir, "out.log"), MaxSizeMiB: 1, Backups: 2}
	script := "i=0; while [ $i -lt 40 ]; do head -c 100000 /dev/zero | tr '\\0' x; echo; i=$((i+1)); done; echo end"
	s := start(t, Config{Process: Process{Output: file, Command: []string{"/bin/sh", "-c", script}}})
	s.wantExit(t, "exit status 0")
	text, err := os.ReadFile(file.File)
	if err != nil || !strings.HasSuffix(string(text), "x\nend\n") {
		t.Errorf("got %d bytes, %v", len(text), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("got %v, %v: want the file and two older ones", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Size() > 1<<20 || info.Mode().Perm()&0o007 != 0 {
			t.Errorf("got %v, %v", info, err)
		}
	}
	if got := s.LastLines(); got[len(got)-1] != "end" {
		t.Errorf("got %.20q", got)
	}
}

// The file cannot be written: the service goes on, and the log says so once.
func TestRun_fileNotWritten(t *testing.T) {
	script := "i=0; while [ $i -lt 100 ]; do echo line; i=$((i+1)); done; exit 7"
	s := start(t, Config{Process: Process{Output: Output{File: "/proc/nonexistent/out.log", MaxSizeMiB: 1}, Command: []string{"/bin/sh", "-c", script}}})
	s.wantExit(t, "exit status 7")
	if got := strings.Count(s.log.String(), "output not written"); got != 1 {
		t.Errorf("the log has it %d times: %s", got, s.log)
	}
}

func TestRun_environment(t *testing.T) {
	t.Setenv("LOCKSTEP_TOKEN", "secret")
	t.Setenv("NOTIFY_SOCKET", "/run/x")
	dir := t.TempDir()
	s := start(t, Config{Process: Process{Env: []string{"OURS=yes"}, WorkingDir: dir}}, "environ")
	s.wantExit(t, "exit status 0")
	want := []string{"OURS=yes", "LOCKSTEP_TOKEN=", "NOTIFY_SOCKET=", filepath.Base(dir)}
	if got := s.LastLines(); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A program that is open for writing is started when it no longer is.
func TestRun_busyProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	text, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, text, 0o700); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(program, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command(program).Run(); !errors.Is(err, syscall.ETXTBSY) {
		t.Skipf("SKIPPED, NOT TESTED: this kernel starts a program that is open for writing: %v", err)
	}
	s := start(t, Config{Process: Process{Command: []string{program}}})
	time.AfterFunc(30*time.Millisecond, func() { held.Close() })
	s.wantExit(t, "exit status 0")
}

func TestRun_manyTimes(t *testing.T) {
	starter := newStarter(t)
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	run := func(command string) {
		s := start(t, Config{Starter: starter, Process: Process{Command: []string{command}}})
		<-s.exit
	}
	run("/bin/true")
	before := open()
	for range 30 {
		run("/bin/true")
		run("/nonexistent")
	}
	if after := open(); after > before+2 {
		t.Errorf("%d files were open, now %d", before, after)
	}
}
