package child

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
	// killTimeout is how long a process may take to end after SIGKILL. A process that waits for a disk
	// or a network file system ends only when that answers.
	killTimeout = 10 * time.Second
	// groupPause is the time between two checks whether a process of the group still runs.
	groupPause = 10 * time.Millisecond
)

// Child is a started process, the leader of a process group of its own.
type Child struct {
	cmd     *exec.Cmd
	outputs []*os.File    // the reading ends of the pipes
	ended   chan struct{} // closed at the leader's end; the leader is not reaped yet
	readers sync.WaitGroup
	limit   time.Duration // the time that it had to stop; 0: it was not asked to
	late    bool          // it did not stop in time
}

// Start starts the command that newCmd makes, and the readers of its output on goroutines of their
// own. A single reader gets all output; of two, the second gets the standard error. s is nil for a
// child that outlives a killed sidecar until it notices that itself.
func Start(ctx context.Context, s *Starter, newCmd func() *exec.Cmd, readers ...func(io.Reader)) (_ *Child, err error) {
	c := &Child{ended: make(chan struct{})}
	var inputs []io.Writer
	defer func() {
		for _, w := range inputs {
			_ = w.(*os.File).Close() // the child has its own copy
		}
		if err != nil {
			c.close()
		}
	}()
	for range readers {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
		c.outputs, inputs = append(c.outputs, r), append(inputs, w)
	}
	c.cmd, err = s.start(ctx, func() *exec.Cmd {
		cmd := newCmd()
		cmd.Stdout, cmd.Stderr = inputs[0], inputs[len(inputs)-1]
		return cmd
	})
	if err != nil {
		return nil, err
	}
	for i, read := range readers {
		c.readers.Go(func() { read(c.outputs[i]) })
	}
	go func() {
		defer close(c.ended)
		waitEnded(c.cmd)
	}()
	return c, nil
}

// PID returns the number of the process, which is also the number of its group.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Ended is closed when the process ends. Others of its group may still run.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// signal sends a signal to the whole group. The leader must not be reaped before: its number could
// be used again. An error only means that no process could receive the signal.
func (c *Child) signal(s syscall.Signal) { _ = syscall.Kill(-c.PID(), s) }

// Stop asks the group to stop, with SIGTERM, and awaits that.
func (c *Child) Stop(timeout time.Duration) {
	c.signal(syscall.SIGTERM)
	c.Await(timeout)
}

// Await returns when all processes of the group have ended, or after the timeout. Call it after the
// child was asked to stop.
func (c *Child) Await(timeout time.Duration) {
	c.limit = timeout
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
	for groupAlive(c.PID()) {
		select {
		case <-tick.C:
		case <-timer.C:
			c.late = true
			return
		}
	}
}

// Late reports whether the child did not stop in time.
func (c *Child) Late() bool { return c.late }

// Reap reports whether the process ended. Then no zombie stays.
func (c *Child) Reap() bool {
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

// Finish kills the rest of the group, and reads the rest of the output. It reports whether the
// process ended: then it is reaped too. It stops reading drain after the end, since a process that
// left the group may hold the pipe open.
func (c *Child) Finish(drain time.Duration) bool {
	c.Kill()
	timer := time.NewTimer(killTimeout)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
	}
	for _, r := range c.outputs {
		// Pipes support deadlines.
		_ = r.SetReadDeadline(time.Now().Add(drain))
	}
	c.readers.Wait()
	c.close()
	return c.Reap() // the leader may have ended since
}

// Kill kills the group. The process must not be reaped.
func (c *Child) Kill() { c.signal(syscall.SIGKILL) }

func (c *Child) close() {
	for _, r := range c.outputs {
		_ = r.Close() // it was only read
	}
}

// Succeeded reports whether the child ended with the exit status 0. Call it after Finish.
func (c *Child) Succeeded() bool { return c.cmd.ProcessState.Success() }

// Reason explains how the child ended. It ignores the error of Wait, which can come from a context
// or from the pipe although the process itself ended normally. It uses only ProcessState: a child
// that was not reaped may have ended since.
func (c *Child) Reason() string {
	state := c.cmd.ProcessState
	if state == nil {
		return fmt.Sprintf("process %d does not end %s after SIGKILL: it waits for a disk or a network file system", c.PID(), killTimeout)
	}
	how := state.String() // "exit status 1", "signal: killed"
	status, is := state.Sys().(syscall.WaitStatus)
	switch {
	case c.late:
		return fmt.Sprintf("did not stop within %s after SIGTERM, and was killed: %s", c.limit, how)
	case is && status.Signaled() && status.Signal() == syscall.SIGKILL:
		how += "; if no user did that, the machine had no memory left: see the kernel's log"
	}
	return how
}
