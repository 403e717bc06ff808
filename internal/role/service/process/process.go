package process

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/DeRuina/timberjack"

	"github.com/lockstep-dev/lockstep/internal/child"
	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
)

// drainTimeout is how long the output is still read after the service has ended: a process that left
// the group may hold the pipe open.
const drainTimeout = 500 * time.Millisecond

// Process is what runs. Only Command is required.
type Process struct {
	Command    []string // the program, as a path, and its arguments
	Env        []string // added to the sidecar's environment, NAME=VALUE each
	WorkingDir string   // empty: the sidecar's
	User       string   // a name or a number; empty: the sidecar's
	Group      string   // a name or a number; empty: the primary group of User
	Output     Output
	// Trust identifies the CAs of etcd, for a process that reads their file. It is set beside the service files, and
	// changes nothing here.
	Trust string
}

// Output is a file for the output of a process.
type Output struct {
	File       string `field:"file"`                       // opened at the first write; empty: the log of the sidecar
	MaxSizeMiB int    `field:"maxSizeMiB" range:"1 10240"` // the size at which the file is rotated
	Backups    int    `field:"backups" range:"1 1000"`     // how many rotated files are kept
	Status     string `field:"status" want:"none"`         // none: no line is shown; empty: the last lines are
}

// Config configures one service. Process and Starter are required.
type Config struct {
	Process
	// StopTimeout is the time between SIGTERM and SIGKILL for the group.
	StopTimeout time.Duration
	Starter     *child.Starter
	// Free returns when a new instance may start. After its error, which names the obstacle, Run
	// starts nothing. nil: a new instance may always start.
	Free func(context.Context) error
	Log  *slog.Logger // nil: none
}

// Driver runs a service as a child process.
type Driver struct {
	cfg   Config
	tail  tail
	stuck remnant // did not end after SIGKILL; nil: none
	last  string  // how the newest instance ended
}

// remnant is a process that did not end.
type remnant interface {
	Reap() bool // reports whether it ended since
	Reason() string
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
	defer func() { d.last = cmp.Or(exit.Reason, d.last) }()
	if d.stuck != nil {
		if !d.stuck.Reap() {
			return driver.Exit{Reason: d.stuck.Reason(), StillRuns: true}
		}
		d.last, d.stuck = d.stuck.Reason(), nil
	}
	if ctx.Err() != nil {
		return driver.Exit{Reason: d.last}
	}
	if d.cfg.Free != nil {
		if err := d.cfg.Free(ctx); err != nil {
			return driver.Exit{Reason: err.Error()}
		}
	}
	out := &sink{log: d.cfg.Log, tail: &d.tail}
	if to := d.cfg.Output; to.File != "" {
		file := &timberjack.Logger{Filename: to.File, MaxSize: to.MaxSizeMiB, MaxBackups: to.Backups, Compression: "none"}
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
			return driver.Exit{Reason: child.StartProblem(err)}
		}
	}
	c, err := child.Start(ctx, d.cfg.Starter, func() *exec.Cmd { return d.command(as) }, func(r io.Reader) { out.drain(ctx, r) })
	if err != nil {
		return driver.Exit{Reason: child.StartProblem(err)}
	}
	// Deferred, so that a panic in running leaves no process behind.
	defer func() {
		ended := c.Finish(drainTimeout)
		exit = driver.Exit{Reason: c.Reason(), StillRuns: !ended}
		if !ended {
			d.stuck = c
		}
	}()
	running()
	select {
	case <-c.Ended():
	case <-ctx.Done():
		c.Stop(d.cfg.StopTimeout)
	}
	return exit
}

func (d *Driver) command(as *Identity) *exec.Cmd {
	cmd := exec.Command(d.cfg.Command[0], d.cfg.Command[1:]...)
	cmd.Dir = d.cfg.WorkingDir
	cmd.Env = append(append(child.Environ(os.Environ(), nil), as.environ()...), d.cfg.Env...)
	if as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &as.credential}
	}
	return cmd
}
