package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// execDrain is how long the output of Exec's program is read after its end.
	execDrain = 500 * time.Millisecond
	// maxExecLine bounds the line in the error of Exec, in bytes.
	maxExecLine = 1 << 10
)

// Exec runs a program to its end, for a readiness probe. The error explains how it ended, with the
// last line that it wrote. When ctx ends, Exec kills the program and its group.
func (s *Starter) Exec(ctx context.Context, command []string) error {
	var last string // line that is not blank, after a colon
	c, err := Start(ctx, s, func() *exec.Cmd {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = Environ(os.Environ(), nil)
		return cmd
	}, func(r io.Reader) {
		Lines(r, maxExecLine, nil, func(line string) {
			if text := strings.TrimSpace(line); text != "" {
				last = ": " + strings.ToValidUTF8(text[:min(len(text), maxExecLine)], "")
			}
		})
	})
	if err != nil {
		return errors.New(StartProblem(err))
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	ended := c.Finish(execDrain)
	if !ended {
		go func() { // ends with the child: no zombie stays
			<-c.ended
			c.Reap()
		}()
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", command[0], err)
	case !ended:
		return fmt.Errorf("%s: does not end after SIGKILL", command[0])
	case !c.Succeeded():
		return fmt.Errorf("%s: %s%s", command[0], c.cmd.ProcessState, last)
	}
	return nil
}

// StartProblem explains why a program could not be started.
func StartProblem(err error) string {
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

// Environ returns the variables of a child: without those for the sidecar alone, which are its own,
// since they may contain secrets, and those by which a service manager recognizes the process that
// it started. It leaves out what except, if it is not nil, names too.
func Environ(all []string, except func(name string) bool) []string {
	manager := []string{
		"NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", "WATCHDOG_USEC", "INVOCATION_ID", "JOURNAL_STREAM",
	}
	return slices.DeleteFunc(slices.Clone(all), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "LOCKSTEP_") || slices.Contains(manager, name) || except != nil && except(name)
	})
}
