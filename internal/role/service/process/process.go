package process

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
)

// Config configures one service. Command and Starter are required.
type Config struct {
	// Command is the program, as a path, and its arguments.
	Command []string
	// Env is added to the sidecar's environment, NAME=VALUE each.
	Env []string
	Dir string // the working directory; empty: the sidecar's
	// User and Group run the process, each a name or a number. An empty User: the sidecar's user and
	// group; an empty Group: the primary group of User.
	User, Group string
	// StopTimeout is the time between SIGTERM and SIGKILL for the group.
	StopTimeout time.Duration
	File        File // gets the output; zero: Log gets it
	Starter     *Starter
	// Free returns when a new instance may start. After its error, which names the obstacle, Run
	// starts nothing. nil: a new instance may always start.
	Free func(context.Context) error
	Log  *slog.Logger // nil: none
}

// Driver runs a service as a child process.
type Driver struct {
	cfg   Config
	tail  tail
	stuck *child // did not end after SIGKILL; nil: none
	last  string // how the newest instance ended
}

// New returns a driver. It starts nothing; Run does.
func New(cfg Config) *Driver {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Driver{cfg: cfg, last: "stopped before it was started"}
}

// LastLines returns the newest lines that the service wrote.
func (d *Driver) LastLines() []string { return d.tail.get() }

// Run starts the process, and returns when it and its group have ended. When ctx ends, Run stops
// them.
func (d *Driver) Run(ctx context.Context, running func()) (exit driver.Exit) {
	if d.stuck != nil {
		ended := d.stuck.reap()
		d.last = d.reason(d.stuck)
		if !ended {
			return driver.Exit{Reason: d.last, StillRuns: true}
		}
		d.stuck = nil
	}
	if ctx.Err() != nil {
		return driver.Exit{Reason: d.last}
	}
	if d.cfg.Free != nil {
		if err := d.cfg.Free(ctx); err != nil {
			d.last = err.Error()
			return driver.Exit{Reason: d.last}
		}
	}
	out := &sink{log: d.cfg.Log, tail: &d.tail}
	if d.cfg.File.Path != "" {
		file := d.cfg.File.open()
		defer func() {
			if err := file.Close(); err != nil {
				d.cfg.Log.Error("output not written", "err", err)
			}
		}()
		out.file = file
	}
	var as *Identity
	if d.cfg.User != "" {
		var err error
		if as, err = Lookup(d.cfg.User, d.cfg.Group); err != nil {
			d.last = startProblem(err)
			return driver.Exit{Reason: d.last}
		}
	}
	c, err := startChild(ctx, d.cfg.Starter, func() *exec.Cmd { return d.command(as) }, func(r io.Reader) { out.drain(ctx, r) })
	if err != nil {
		d.last = startProblem(err)
		return driver.Exit{Reason: d.last}
	}
	// Deferred, so that a panic in running leaves no process behind.
	defer func() {
		ended := c.finish()
		d.last = d.reason(c)
		exit = driver.Exit{Reason: d.last, StillRuns: !ended}
		if !ended {
			d.stuck = c
		}
	}()
	running()
	select {
	case <-c.ended:
	case <-ctx.Done():
		c.stop(d.cfg.StopTimeout)
	}
	return exit
}

func (d *Driver) command(as *Identity) *exec.Cmd {
	cmd := exec.Command(d.cfg.Command[0], d.cfg.Command[1:]...)
	cmd.Dir = d.cfg.Dir
	cmd.Env = append(append(environ(os.Environ()), as.environ()...), d.cfg.Env...)
	if as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &as.credential}
	}
	return cmd
}

// environ removes variables that are for the sidecar alone: its own, which may contain secrets, and
// those by which a service manager recognizes the process that it started.
func environ(all []string) []string {
	own := []string{
		"NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", "WATCHDOG_USEC", "INVOCATION_ID", "JOURNAL_STREAM",
	}
	return slices.DeleteFunc(slices.Clone(all), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "LOCKSTEP_") || slices.Contains(own, name)
	})
}

// startProblem explains why a program could not be started.
func startProblem(err error) string {
	text := fmt.Sprintf("start: %v", err)
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		text += "; it is no program for this machine, and a script needs a first line like #!/bin/sh"
	case errors.Is(err, fs.ErrNotExist) && exists(err):
		text += "; the file exists, but not the interpreter of its first line, or not the loader that it was linked with"
	}
	return text
}

// exists reports whether the file in err exists nevertheless.
func exists(err error) bool {
	pathErr, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return false
	}
	_, err = os.Stat(pathErr.Path)
	return err == nil
}

// reason explains how a child ended. It ignores the error of Wait, which can come from a context or
// from the pipe although the process itself ended normally. It uses only ProcessState: a child that
// was not reaped may have ended since.
func (d *Driver) reason(c *child) string {
	if c.cmd.ProcessState == nil {
		return fmt.Sprintf("process %d does not end %s after SIGKILL: it waits for a disk or a network file system", c.cmd.Process.Pid, killTimeout)
	}
	state := c.cmd.ProcessState
	how := state.String() // "exit status 1", "signal: killed"
	status, is := state.Sys().(syscall.WaitStatus)
	switch {
	case c.late:
		return fmt.Sprintf("did not stop within %s after SIGTERM, and was killed: %s", d.cfg.StopTimeout, how)
	case is && status.Signaled() && status.Signal() == syscall.SIGKILL:
		how += "; if no user did that, the machine had no memory left: see the kernel's log"
	}
	return how
}

// Exec runs a program to its end, for a readiness probe. The error explains how it ended, with the
// last line that it wrote. When ctx ends, Exec kills the program and its group.
func (s *Starter) Exec(ctx context.Context, command []string) error {
	var last lastLine
	c, err := startChild(ctx, s, func() *exec.Cmd {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = environ(os.Environ())
		return cmd
	}, func(r io.Reader) { eachLine(r, nil, last.set) })
	if err != nil {
		return errors.New(startProblem(err))
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	ended := c.finish()
	if !ended {
		go func() { // ends with the child: no zombie stays
			<-c.ended
			c.reap()
		}()
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", command[0], err)
	case !ended:
		return fmt.Errorf("%s: does not end after SIGKILL", command[0])
	case !c.cmd.ProcessState.Success():
		return fmt.Errorf("%s: %s%s", command[0], c.cmd.ProcessState, last.suffix())
	}
	return nil
}

// lastLine is the last line of an output that is not blank.
type lastLine struct{ text []byte }

func (l *lastLine) set(line string) {
	if text := bytes.TrimSpace([]byte(line)); len(text) > 0 {
		l.text = text[:min(len(text), maxKept)]
	}
}

func (l *lastLine) suffix() string {
	if len(l.text) == 0 {
		return ""
	}
	return ": " + strings.ToValidUTF8(string(l.text), "")
}
