package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/shell"
	"github.com/lockstep-dev/lockstep/internal/trusted"
	"github.com/lockstep-dev/lockstep/protocol"
)

const (
	// overrideInterval is the pause between two reads of the override file.
	overrideInterval = time.Second
	// overrideReminder is how often the log repeats that an override is in force.
	overrideReminder = time.Minute
	// maxOverrideFile bounds how much of it is read, in bytes.
	maxOverrideFile = 4 << 10
	// DefaultOverrideFile is the default file of the commands that begin and end an override.
	DefaultOverrideFile = "/etc/lockstep/override"
)

// Overrides follows the override file of this node (docs/protocol-nodes.md#overrides). It is a file, not a
// key in etcd: people need it most while etcd does not answer.
type Overrides struct {
	file    string
	log     *slog.Logger
	inForce *event.Value[protocol.Override]
	problem *event.Value[string]
}

// NewOverrides returns a follower that reads nothing before Run. Without a file, there is never an
// override.
func NewOverrides(file string, log *slog.Logger) *Overrides {
	return &Overrides{file: file, log: log, inForce: event.New(protocol.Override{}), problem: event.New("")}
}

// InForce follows the override in force; its zero value: there is none.
func (o *Overrides) InForce() *event.Value[protocol.Override] { return o.inForce }

// Problem follows why the file is invalid; empty: it is valid, or missing.
func (o *Overrides) Problem() *event.Value[string] { return o.problem }

// Run reads the file every overrideInterval until ctx ends.
func (o *Overrides) Run(ctx context.Context) error {
	var reminded time.Time
	var last overrideFile
	for {
		now := time.Now()
		in, problem := last.read(o.file, now)
		if problem != o.problem.Get() {
			o.problem.Set(problem)
			if problem != "" {
				o.log.Error("override file rejected", "err", problem)
			}
		}
		if in.On() && now.Sub(reminded) >= overrideReminder {
			reminded = now
			o.log.Error("AN OPERATOR HAS OVERRIDDEN THE GATE: this node serves whatever the gate says", "override", in.String())
		}
		if in != o.inForce.Get() {
			o.inForce.Set(in)
			if !in.On() {
				o.log.Warn("the override of the gate has ended")
			}
		}
		if !backoff.Sleep(ctx, overrideInterval) {
			return ctx.Err()
		}
	}
}

// overrideFile is the override in a file, and when the file was written.
type overrideFile struct {
	protocol.Override
	at time.Time
}

// errUnread: a valid file may exist, but could not be read.
var errUnread = errors.New("it could not be read")

// read returns the override that is in force, or why the file is invalid. If the file cannot be
// read, such as when the process runs out of file descriptors, the last read override stays in
// force until its end: people need it most in such times.
func (f *overrideFile) read(file string, now time.Time) (in protocol.Override, problem string) {
	if file == "" {
		return protocol.Override{}, ""
	}
	read, err := parseOverride(file)
	if !errors.Is(err, errUnread) {
		*f = read
	}
	if errors.Is(err, fs.ErrNotExist) {
		return protocol.Override{}, ""
	}
	inForce := false
	if err == nil || f.On() {
		inForce, problem = protocol.JudgeOverride(f.Override, f.at, now)
	}
	switch {
	case inForce && err != nil:
		return f.Override, fmt.Sprintf("%s cannot be read, so what it had before stays in force until its end: %v", file, err)
	case err == nil && problem != "":
		err = errors.New(problem)
	}
	switch {
	case err != nil:
		return protocol.Override{}, fmt.Sprintf("%s has no effect: %v; write it with sidecar override begin%s, or delete it", file, err, OverrideFlag(file))
	case !inForce:
		return protocol.Override{}, ""
	}
	return f.Override, ""
}

// parseOverride reads the file. On an error it returns the zero value.
func parseOverride(file string) (out overrideFile, err error) {
	f, err := os.Open(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return overrideFile{}, err
	case err != nil:
		return overrideFile{}, fmt.Errorf("%w: %w", errUnread, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return overrideFile{}, fmt.Errorf("%w: %w", errUnread, err)
	}
	if !info.Mode().IsRegular() {
		return overrideFile{}, fmt.Errorf("it has the mode %s: it must be a file", info.Mode())
	}
	if problem := trusted.Problem(file); problem != "" {
		return overrideFile{}, errors.New("it cannot be trusted: " + problem)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxOverrideFile))
	if err != nil {
		return overrideFile{}, fmt.Errorf("%w: %w", errUnread, err)
	}
	o, err := decodeOverride(string(text))
	if err != nil {
		return overrideFile{}, err
	}
	return overrideFile{o, info.ModTime()}, nil
}

// OverrideFlag returns the flag with which a command uses this override file, with a leading space;
// empty: the command needs no flag.
func OverrideFlag(file string) string {
	if file == "" || file == DefaultOverrideFile {
		return ""
	}
	return " --override-file=" + shell.Quote(file)
}
