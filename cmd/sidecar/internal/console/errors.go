package console

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// The exit codes. README and operators' scripts rely on them.
const (
	ExitOK       = 0
	ExitFailed   = 1
	ExitUsage    = 2
	ExitNotReady = 3

	// The exit codes of bundle diff are the same as in diff and kubectl diff.
	ExitDiffers = 1
	ExitTrouble = 2

	ExitNoTurn    = 7
	ExitNoService = 8
)

// ExitError ends the program with a code of its own.
type ExitError struct {
	Code int
	Err  error // nil: stdout contains everything already
}

func (e ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}
func (e ExitError) Unwrap() error { return e.Err }

// Usagef returns an error about a wrong command line or environment.
func Usagef(format string, args ...any) error {
	return ExitError{ExitUsage, fmt.Errorf(format, args...)}
}

// The errors with ExitNotReady.
var (
	// ErrNotReady is returned by a wait that timed out.
	ErrNotReady = ExitError{ExitNotReady, errors.New("not ready in time")}
	// ErrClosed is returned by a check that does not wait.
	ErrClosed = ExitError{ExitNotReady, errors.New("not ready")}
	// ErrUnconfirmed is returned when a node does not confirm a change in time.
	ErrUnconfirmed = ExitError{ExitNotReady, errors.New("not confirmed in time")}
)

// PrintError prints err, one line for each of several that were joined, and returns
// the exit code.
func PrintError(stderr io.Writer, err error) int {
	if err == nil {
		return ExitOK
	}
	if text := err.Error(); text != "" {
		for line := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(stderr, "sidecar: %s\n", line)
		}
	}
	if exit, own := errors.AsType[ExitError](err); own {
		return exit.Code
	}
	return ExitFailed
}
