package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
)

const (
	// overrideInterval is the pause between two reads of the override file.
	overrideInterval = time.Second
	// overrideReminder is how often the log repeats that an override is in force.
	overrideReminder = time.Minute
	// maxOverrideFile bounds what is read of it.
	maxOverrideFile = 4 << 10
	// DefaultOverrideFile is the file of the commands that begin and end an override.
	DefaultOverrideFile = "/etc/lockstep/override"
)

// keepOverride reads the override file again and again, until ctx ends. A file, and not a
// key in etcd: people need it most while etcd does not answer.
func (a *App) keepOverride(ctx context.Context) error {
	var reminded time.Time
	for {
		now := time.Now()
		in, problem := readOverride(a.cfg.OverrideFile, now)
		if problem != a.overrideProblem.Get() {
			a.overrideProblem.Set(problem)
			if problem != "" {
				a.log.Error("override file rejected", "err", problem)
			}
		}
		if in.On() && now.Sub(reminded) >= overrideReminder {
			reminded = now
			a.log.Error("AN OPERATOR HAS OVERRIDDEN THE GATE: this node serves whatever the gate says", "override", in.String())
		}
		if in != a.override.Get() {
			a.override.Set(in)
			if !in.On() {
				a.log.Warn("the override of the gate has ended")
			}
		}
		if !backoff.Sleep(ctx, overrideInterval) {
			return ctx.Err()
		}
	}
}

// overrideEnd is when an override ends, for the metric; 0: there is none.
func overrideEnd(o protocol.Override) float64 {
	if !o.On() {
		return 0
	}
	return float64(o.Until.Unix())
}

// readOverride returns the override that is in force, or why the file is invalid.
func readOverride(file string, now time.Time) (in protocol.Override, problem string) {
	if file == "" {
		return protocol.Override{}, ""
	}
	o, written, err := parseOverride(file)
	if errors.Is(err, fs.ErrNotExist) {
		return protocol.Override{}, ""
	}
	inForce := false
	if err == nil {
		if inForce, problem = protocol.JudgeOverride(o, written, now); problem != "" {
			err = errors.New(problem)
		}
	}
	switch {
	case err != nil:
		return protocol.Override{}, fmt.Sprintf("%s has no effect: %v; write it with sidecar override begin%s, or delete it", file, err, OverrideFlag(file))
	case !inForce:
		return protocol.Override{}, ""
	}
	return o, ""
}

// parseOverride reads the file, and when it was written.
func parseOverride(file string) (o protocol.Override, written time.Time, err error) {
	f, err := os.Open(file)
	if err != nil {
		return o, written, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return o, written, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
		return o, written, fmt.Errorf("it has the mode %s: it must be a file that only its owner may write", info.Mode())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxOverrideFile))
	if err != nil {
		return o, written, err
	}
	o, err = protocol.ParseOverride(string(text))
	return o, info.ModTime(), err
}

// OverrideFlag is the flag with which a command begins or ends an override of this file,
// with a leading space; empty: it needs none.
func OverrideFlag(file string) string {
	if file == "" || file == DefaultOverrideFile {
		return ""
	}
	return " --override-file=" + shellQuoted(file)
}
