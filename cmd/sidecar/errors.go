package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// The exit codes. README and operators' scripts rely on them.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotReady = 3

	exitNoTurn    = 7
	exitNoService = 8
)

// usageError is a wrong command line or environment.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// exitError ends the program with a code of its own.
type exitError struct {
	code int
	err  error // nil: stdout contains everything already
}

func (e exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e exitError) Unwrap() error { return e.err }

// errNotReady is returned by a wait that timed out.
var errNotReady = errors.New("not ready in time")

// errClosed is returned by a check that does not wait.
var errClosed = errors.New("not ready")

// errUnconfirmed is returned when a node does not confirm a change in time.
var errUnconfirmed = errors.New("not confirmed in time")

// printError prints err, one line for each of several that were joined, and returns
// the exit code.
func printError(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	if text := err.Error(); text != "" {
		for line := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(stderr, "sidecar: %s\n", line)
		}
	}
	var usage usageError
	var exit exitError
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errNotReady), errors.Is(err, errClosed), errors.Is(err, errUnconfirmed):
		return exitNotReady
	}
	return exitFailed
}

// quiet is for an error that stdout already contains: only the exit code is left.
func quiet(err error) error {
	if err == nil {
		return nil
	}
	return exitError{code: exitFailed}
}
