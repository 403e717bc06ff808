package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/internal/durable"
)

// Run is a sidecar that uses a data directory, with a member or without one. Its file exists from its start to its end. A
// sidecar that is killed cannot delete it: the file without its lock says so.
type Run struct {
	Since  time.Time `json:"since"`
	Listen string    `json:"listen"`
	Boot   string    `json:"boot"` // of the machine; empty: unknown
}

// Claim is the file of a sidecar that runs, which it keeps locked.
type Claim struct {
	file *os.File
	path string
}

// Claim writes the file of a run, and locks it. It returns the run before, if that one ended without deleting its file. A
// *LockedError: another sidecar runs.
func (l Layout) Claim(r Run) (c *Claim, before *Run, err error) {
	file, err := l.lockedRun()
	if err != nil {
		return nil, nil, err
	}
	c = &Claim{file: file, path: l.Running()}
	if text, err := io.ReadAll(file); err == nil && len(text) > 0 {
		before = new(Run)
		if json.Unmarshal(text, before) != nil {
			before = nil
		}
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt(text, 0)
	}
	if err == nil {
		err = errors.Join(file.Sync(), durable.SyncDir(string(l))) // it has to survive a loss of power
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("write %q: %w", c.path, err), c.End())
	}
	return c, before, nil
}

// lockedRun opens and locks the file. A sidecar that ends deletes it in between: then lockedRun opens the next one.
func (l Layout) lockedRun() (*os.File, error) {
	for {
		file, err := os.OpenFile(l.Running(), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			holder := lockHolder(file)
			if err = errors.Join(err, file.Close()); errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, &LockedError{Path: string(l), PID: holder}
			}
			return nil, fmt.Errorf("lock %q: %w", l.Running(), err)
		}
		locked, err := file.Stat()
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if present, err := os.Stat(l.Running()); err == nil && os.SameFile(locked, present) {
			return file, nil
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
}

// End deletes the file, and unlocks it: the sidecar ends, and has said why.
func (c *Claim) End() error { return errors.Join(durable.Remove(c.path), c.file.Close()) }

// LastRun returns the run whose file exists, and its process: 0, if that has ended. It reports false if there is none, or
// if it is unknown whether the process has ended.
func (l Layout) LastRun() (r Run, pid int, found bool) {
	if _, err := os.Stat(locksFile); err != nil {
		return Run{}, 0, false
	}
	file, err := os.Open(l.Running())
	if err != nil {
		return Run{}, 0, false
	}
	defer func() { _ = file.Close() }() // only read
	text, err := io.ReadAll(file)
	if err != nil || json.Unmarshal(text, &r) != nil {
		return Run{}, 0, false
	}
	return r, lockHolder(file), true
}
