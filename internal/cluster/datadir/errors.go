package datadir

import (
	"errors"
	"fmt"
)

// RefusedError is a directory that must not be used as it is. Nothing in it was
// changed.
type RefusedError struct {
	Path    string // the directory or the file
	Problem string // the problem with it
	Remedy  string // an action, or a command to type
}

// Error names the path, the problem and the remedy.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("data directory: %q %s: %s", e.Path, e.Problem, e.Remedy)
}

// LockedError is a directory that another process uses.
type LockedError struct {
	Path string
	PID  int // of the process that locked it; 0: unknown
}

// Error names the directory and the process.
func (e *LockedError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("the process %d", e.PID)
	}
	return fmt.Sprintf("data directory: %q is in use by %s: stop that one first, or give this sidecar another --data-dir", e.Path, holder)
}

// ErrNoMarker is returned for a directory without a marker: it is empty or
// missing.
var ErrNoMarker = errors.New("no cluster was created or joined in this directory")
