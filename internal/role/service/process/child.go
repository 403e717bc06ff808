package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// drainTimeout is how long the output is still read after the child has ended: a process that left
	// the group may hold the pipe open.
	drainTimeout = 500 * time.Millisecond
	// killTimeout is how long a process may take to end after SIGKILL. A process that waits for a disk
	// or a network file system ends only when that answers.
	killTimeout = 10 * time.Second
	// groupPause is the time between two checks whether a process of the group still runs.
	groupPause = 10 * time.Millisecond
)

// child is a started process, with its group.
type child struct {
	cmd     *exec.Cmd
	output  *os.File      // the reading end of the pipe
	ended   chan struct{} // closed at the leader's end; the leader is not reaped yet
	readers sync.WaitGroup
	stopped bool // it was asked to stop
	late    bool // it did not stop in time
}

// startChild starts a command, and drain on another goroutine to read its output.
func startChild(ctx context.Context, s *Starter, newCmd func() *exec.Cmd, drain func(io.Reader)) (*child, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	cmd, err := s.start(ctx, func() *exec.Cmd {
		cmd := newCmd()
		cmd.Stdout, cmd.Stderr = w, w
		return cmd
	})
	// The child has its own copy.
	_ = w.Close()
	if err != nil {
		_ = r.Close() // nothing was read
		return nil, err
	}
	c := &child{cmd: cmd, output: r, ended: make(chan struct{})}
	c.readers.Go(func() { drain(r) })
	go func() {
		defer close(c.ended)
		waitEnded(cmd)
	}()
	return c, nil
}

// signal sends a signal to the whole group. The leader must not be reaped before: its number could
// be used again. An error only means that no process could receive the signal.
func (c *child) signal(s syscall.Signal) { _ = syscall.Kill(-c.cmd.Process.Pid, s) }

// stop asks the group to stop, and returns when all its processes have ended, or after the timeout.
func (c *child) stop(timeout time.Duration) {
	c.stopped = true
	c.signal(syscall.SIGTERM)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		c.late = true
		return
	}
	tick := time.NewTicker(groupPause)
	defer tick.Stop()
	for groupAlive(c.cmd.Process.Pid) {
		select {
		case <-tick.C:
		case <-timer.C:
			c.late = true
			return
		}
	}
}

// reap reports whether the leader ended. Then ProcessState contains its outcome, and no zombie
// stays.
func (c *child) reap() bool {
	select {
	case <-c.ended:
	default:
		return false
	}
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Wait() // ProcessState contains the outcome
	}
	return c.cmd.ProcessState != nil
}

// finish kills the rest of the group, and reads the rest of the output. It reports whether the
// leader ended.
func (c *child) finish() bool {
	c.signal(syscall.SIGKILL)
	timer := time.NewTimer(killTimeout)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
	}
	// Pipes support deadlines.
	_ = c.output.SetReadDeadline(time.Now().Add(drainTimeout))
	c.readers.Wait()
	_ = c.output.Close() // it was only read
	return c.reap()      // the leader may have ended since
}
