package child

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Starter starts all child processes on one thread, which lives as long as Run. The kernel kills a
// child when the thread that started it ends.
type Starter struct {
	requests chan request
}

// request asks for the start of a child. The starter always answers.
type request struct {
	cmd    *exec.Cmd
	result chan error // buffered, for one result
}

// NewStarter returns a starter. It starts children only while Run runs.
func NewStarter() *Starter { return &Starter{requests: make(chan request)} }

// Run starts children until ctx ends. It must not end before all children have ended.
func (s *Starter) Run(ctx context.Context) error {
	runtime.LockOSThread()
	// Without the unlock, the thread would end with this goroutine.
	defer runtime.UnlockOSThread()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r := <-s.requests:
			r.result <- r.cmd.Start()
		}
	}
}

// How long to retry a program that another process holds open for writing. A fork of any program on
// this machine at the wrong moment causes that, until its exec.
const (
	busyPause = 10 * time.Millisecond
	busyLimit = 100 // attempts
)

// start starts the command that newCmd makes, in a process group of its own. nil starts it on the
// thread of the caller, whose end then does not matter to the child.
func (s *Starter) start(ctx context.Context, newCmd func() *exec.Cmd) (*exec.Cmd, error) {
	for attempt := 1; ; attempt++ {
		cmd := newCmd()
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Setpgid = true
		err := s.request(ctx, cmd)
		if !errors.Is(err, syscall.ETXTBSY) || attempt == busyLimit {
			return cmd, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(busyPause):
		}
	}
}

func (s *Starter) request(ctx context.Context, cmd *exec.Cmd) error {
	if s == nil {
		return cmd.Start()
	}
	endWithThread(cmd.SysProcAttr)
	r := request{cmd: cmd, result: make(chan error, 1)}
	select {
	case s.requests <- r:
		return <-r.result
	case <-ctx.Done():
		return ctx.Err()
	}
}
