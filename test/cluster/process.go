package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	stopTimeout = 45 * time.Second // from SIGTERM to SIGKILL
	tailLines   = 25
	tailBytes   = 16 << 10
	tailWidth   = 500
)

type processConfig struct {
	name string
	path string
	args []string
	// wrapper is a program with its arguments that becomes the process, such as nsenter;
	// empty: none.
	wrapper []string
	start   func(*exec.Cmd) error // nil: StartCommand
	env     []string              // besides plainEnviron
	log     string                // stdout and stderr, appended
}

// Process is a child process. Its methods may be called from many goroutines.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended and its log is complete
}

// startProcess starts a child in its own process group. So Ctrl-C in a terminal
// reaches only the launcher, which then stops its children in order. The child gets
// no environment variable of this process that could set one of its flags.
func startProcess(cfg processConfig) (*Process, error) {
	log, err := os.OpenFile(cfg.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cfg.name, err)
	}
	defer log.Close() // the child holds a copy

	p := &Process{name: cfg.name, log: cfg.log, done: make(chan struct{})}
	line := slices.Concat(cfg.wrapper, []string{cfg.path}, cfg.args)
	p.cmd = exec.Command(line[0], line[1:]...)
	p.cmd.Env = append(plainEnviron(), cfg.env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	start := StartCommand
	if cfg.start != nil {
		start, p.cmd.SysProcAttr = cfg.start, childAttr()
	}
	if err := start(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", cfg.name, err)
	}
	// Ends with the child, which Stop and Kill end.
	go func() {
		defer close(p.done)
		// cmd.ProcessState holds the outcome.
		_ = p.cmd.Wait()
	}()
	return p, nil
}

// plainEnviron returns the variables that every program needs, the directory for coverage
// data, and GOGC, which saves processor time in tests.
func plainEnviron() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOCOVERDIR", "GOGC"} {
		if v, found := os.LookupEnv(name); found {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode waits for the end of the process and returns its exit code; -1: a signal
// ended it.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Ended waits for the end of the process, and says how it ended. killed: a signal ended it, so its log does
// not say why.
func (p *Process) Ended() (how string, killed bool) {
	<-p.done
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Sprintf("was killed (signal %d)", status.Signal()), true
	}
	return fmt.Sprintf("ended with exit code %d", p.cmd.ProcessState.ExitCode()), false
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// memberProgram is how the name of the program begins that is unpacked from a sidecar.
const memberProgram = "etcd-member-"

// Child returns the process ID of the child that runs the same program, or the one that was
// unpacked from it: for a sidecar, its etcd member. 0: there is no such child. It needs Linux.
func (p *Process) Child() (int, error) {
	children, err := p.Children()
	if err != nil {
		return 0, err
	}
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID()))
	if err != nil {
		return 0, nil //nolint:nilerr // it has ended
	}
	for _, pid := range children {
		program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil && (program == own || strings.HasPrefix(filepath.Base(program), memberProgram)) {
			return pid, nil
		}
	}
	return 0, nil
}

// Children returns the process IDs of all children of the process: for a sidecar, its etcd
// member and its services. It needs Linux.
func (p *Process) Children() ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// PID (NAME) STATE PPID
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(p.PID()) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err != nil {
			return nil, err
		}
		out = append(out, pid)
	}
	return out, nil
}

// HasEnded returns nil if a process that is not a child of this one does not run. A zombie
// does not run either: this program cannot reap it.
func HasEnded(pid int) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if pid == 0 || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	// PID (NAME) STATE ...
	if rest := string(text[bytes.LastIndexByte(text, ')')+1:]); err == nil && strings.HasPrefix(strings.TrimSpace(rest), "Z") {
		return nil
	}
	return errors.Join(err, fmt.Errorf("the process %d has not ended", pid))
}

// LogFile returns the path of the file with the output of the process.
func (p *Process) LogFile() string { return p.log }

// Signal sends a signal: SIGSTOP and SIGCONT pause the process. It does nothing
// once the process has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// Stop sends SIGTERM and waits for the process to end. It kills a process that takes
// too long, and returns an error then. It does nothing if the process has ended.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-p.done:
		return nil
	case <-timeout.C:
		return errors.Join(fmt.Errorf("stop %s: still running after %s, killed; %s", p.name, stopTimeout, p.Ending()), p.Kill())
	}
}

// Kill ends the process as a crash would (SIGKILL) and waits for it.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// AwaitStart waits until ready returns nil. It returns an error if the process ends,
// or if that takes longer than timeout; it kills the process then.
func (p *Process) AwaitStart(timeout time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := Poll(ctx, ready)
	if err == nil {
		return nil
	}
	select {
	case <-p.done:
		return fmt.Errorf("start %s: %s; %s", p.name, p.cmd.ProcessState, p.Ending())
	default:
		return errors.Join(fmt.Errorf("start %s: not ready after %s: %w; %s", p.name, timeout, err, p.Ending()), p.Kill())
	}
}

// Ending returns the end of the log, which usually contains the reason for an end.
func (p *Process) Ending() string {
	return fmt.Sprintf("%s ends:\n%s", p.log, tail(p.log))
}

// tail returns the last lines of a file, indented, or why it cannot read them.
func tail(path string) string {
	lines, err := lastLines(path)
	if err != nil {
		return "    (" + err.Error() + ")"
	}
	if len(lines) == 0 {
		return "    (empty)"
	}
	return "    " + strings.Join(lines, "\n    ")
}

func lastLines(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(max(0, info.Size()-tailBytes), io.SeekStart); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, nil
	}
	lines := strings.Split(string(text), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	for i, line := range lines {
		if len(line) > tailWidth {
			lines[i] = line[:tailWidth] + "..."
		}
	}
	return lines, nil
}
