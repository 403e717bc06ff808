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
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
	"github.com/lockstep-dev/lockstep/test/logs"
)

// limit is far above every limit that is tested, so that a slow machine fails no test.
const limit = time.Minute

// newStarter returns a starter that runs until the test ends.
func newStarter(t *testing.T) *Starter {
	t.Helper()
	s := NewStarter()
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
			start(t, Config{Command: []string{"/bin/sh", "-c", script}}).wantExit(t, want)
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
			s := start(t, Config{Command: []string{filepath.Join(dir, name)}})
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
		d := New(Config{Command: []string{"/bin/true"}, Starter: NewStarter()})
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

// lateChild returns a child that counts as running until ended is closed, although SIGKILL ends
// it: a test cannot make one that waits for a disk.
func lateChild(t *testing.T) *child {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	cmd := exec.Command(os.Args[0], "forever")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{cmd: cmd, output: r, ended: make(chan struct{})}
}

// A leader that ends later than it may after SIGKILL: the messages about it are true, and no
// zombie stays.
func TestChild_endsLate(t *testing.T) {
	const killed = "signal: killed"
	synctest.Test(t, func(t *testing.T) {
		c, d := lateChild(t), New(Config{})
		c.readers.Go(func() { // it ends while its output is read
			<-time.After(killTimeout + time.Millisecond)
			close(c.ended)
		})
		if ended, reason := c.finish(), d.reason(c); !ended || !strings.HasPrefix(reason, killed) {
			t.Errorf("got %t, %q", ended, reason)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, d := lateChild(t), New(Config{})
		ended := c.finish()
		close(c.ended) // right after
		if reason := d.reason(c); ended || !strings.Contains(reason, "does not end 10s after SIGKILL") {
			t.Errorf("got %t, %q", ended, reason)
		}
		d.stuck = c
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if exit := d.Run(ctx, func() {}); exit.StillRuns || !strings.HasPrefix(exit.Reason, killed) || c.cmd.ProcessState == nil {
			t.Errorf("got %+v, reaped as %v", exit, c.cmd.ProcessState)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, d := lateChild(t), New(Config{})
		c.finish()
		d.stuck = c
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if exit := d.Run(ctx, func() {}); !exit.StillRuns {
			t.Errorf("it runs, and Run returned %+v", exit)
		}
		close(c.ended)
		if !c.reap() {
			t.Error("not reaped")
		}
	})
}

// A stop after the end says how the newest instance ended.
func TestRun_stopAfterTheEnd(t *testing.T) {
	s := start(t, Config{Command: []string{"/bin/sh", "-c", "exit 3"}})
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
	if len(got[1]) != maxKept+len(cutMark) || !strings.HasSuffix(got[1], cutMark) {
		t.Errorf("got a line of %d bytes", len(got[1]))
	}
	if text := s.log.String(); !strings.Contains(text, "msg=output line=short") || !strings.Contains(text, `line="no end"`) || len(text) > maxLine+1000 {
		t.Errorf("got a log of %d bytes: %.100s", len(text), text)
	}
}

func TestRun_file(t *testing.T) {
	dir := t.TempDir()
	file := File{Path: filepath.Join(dir, "out.log"), MaxSize: 1, Backups: 2}
	script := "i=0; while [ $i -lt 40 ]; do head -c 100000 /dev/zero | tr '\\0' x; echo; i=$((i+1)); done; echo end"
	s := start(t, Config{File: file, Command: []string{"/bin/sh", "-c", script}})
	s.wantExit(t, "exit status 0")
	text, err := os.ReadFile(file.Path)
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
	s := start(t, Config{File: File{Path: "/proc/nonexistent/out.log", MaxSize: 1}, Command: []string{"/bin/sh", "-c", script}})
	s.wantExit(t, "exit status 7")
	if got := strings.Count(s.log.String(), "output not written"); got != 1 {
		t.Errorf("the log has it %d times: %s", got, s.log)
	}
}

func TestRun_environment(t *testing.T) {
	t.Setenv("LOCKSTEP_TOKEN", "secret")
	t.Setenv("NOTIFY_SOCKET", "/run/x")
	dir := t.TempDir()
	s := start(t, Config{Env: []string{"OURS=yes"}, Dir: dir}, "environ")
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
	s := start(t, Config{Command: []string{program}})
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
		s := start(t, Config{Starter: starter, Command: []string{command}})
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

func TestExec(t *testing.T) {
	starter := newStarter(t)
	sh := func(script string) error { return starter.Exec(t.Context(), []string{"/bin/sh", "-c", script}) }
	if err := sh("exit 0"); err != nil {
		t.Error(err)
	}
	if err := sh("echo one; echo two >&2; exit 2"); err == nil || err.Error() != "/bin/sh: exit status 2: two" {
		t.Errorf("got %v", err)
	}
	if err := starter.Exec(t.Context(), []string{"/nonexistent"}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	file := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- starter.Exec(ctx, []string{os.Args[0], "group", file}) }()
	pids := numbers(t, file)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, pid := range pids {
		until(t, "the program and its group have ended", func() bool { return !alive(pid) })
	}
}
