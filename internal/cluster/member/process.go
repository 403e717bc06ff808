package member

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// stopTimeout is the time for a child to stop gracefully. The child gives up
	// earlier by itself.
	stopTimeout = 14 * time.Second
	// maxLine bounds one line of a child's output.
	maxLine = 256 << 10
)

// process is one child.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	done  chan struct{} // closed when the child ended and its output was read
	log   *logReader

	message Message // the last one that says how it ended; read after done
	killed  bool    // stop had to kill it; read after done
}

// startChild starts a child. It calls receive with each message, on another goroutine.
func startChild(ctx context.Context, cfg Config, receive func(Message)) (*process, error) {
	if len(cfg.Command) == 0 {
		return nil, errEmptyCommand
	}
	c := &process{done: make(chan struct{}), log: newLogReader(cfg.Log)}
	c.cmd = exec.Command(cfg.Command[0], cfg.Command[1:]...)
	// A process group of its own: Ctrl-C in a terminal reaches the parent only, which
	// stops the member after everything that needs it.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.Env = childEnviron(os.Environ())
	if cfg.Lock != nil {
		c.cmd.ExtraFiles = []*os.File{cfg.Lock} // becomes LockFD
	}
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the etcd member: %w", err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the etcd member: %w", err)
	}
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start the etcd member: %w", err)
	}
	c.stdin = stdin
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the etcd member: %w", err)
	}
	// The child reads it before anything else. If it ended already, its exit says why.
	_ = json.NewEncoder(stdin).Encode(cfg.Spec)
	go c.follow(ctx, stdout, stderr, receive)
	return c, nil
}

// childEnviron removes the variables that are not for etcd: the sidecar's own,
// which may contain secrets, and proxies, through which etcd would reach its peers.
func childEnviron(environ []string) []string {
	return slices.DeleteFunc(environ, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "LOCKSTEP_") || strings.HasSuffix(strings.ToUpper(name), "_PROXY")
	})
}

// follow reads the child's output until its end, and then waits for the child.
func (c *process) follow(ctx context.Context, stdout, stderr io.Reader, receive func(Message)) {
	defer close(c.done)
	var logs sync.WaitGroup
	logs.Go(func() { eachLine(stderr, func(line []byte) { c.log.read(ctx, line) }) })
	eachLine(stdout, func(line []byte) {
		var m Message
		if json.Unmarshal(line, &m) != nil {
			c.log.read(ctx, line)
			return
		}
		if m.Event == Removed || m.Event == Failed || m.Event == Again {
			c.message = m
		}
		receive(m)
	})
	logs.Wait()
	// cmd.ProcessState contains the outcome.
	_ = c.cmd.Wait()
}

// eachLine calls use with each line, without its end. It reads to the end in any case:
// a full pipe would stop the child.
func eachLine(r io.Reader, use func([]byte)) {
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			use([]byte(strings.TrimRight(string(line), "\r\n")))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (c *process) pid() int { return c.cmd.Process.Pid }

// stop asks the child to stop, and waits for its end. It kills a child that takes too
// long.
func (c *process) stop() {
	c.log.stop()
	// The child sees the end of its input. A child that ended already needs none.
	_ = c.stdin.Close()
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-c.done:
		return
	case <-timeout.C:
	}
	c.killed = true
	// Kill fails only if the process ended already.
	_ = c.cmd.Process.Kill()
	<-c.done
}

// ending returns how the child ended. Call it after done.
func (c *process) ending() ending {
	return ending{reason: c.reason(), output: c.log.output(), removed: c.message.Event == Removed, again: c.message.Event == Again}
}

func (c *process) reason() string {
	state := c.cmd.ProcessState
	how := state.String() // "exit status 1", "signal: killed"
	status, is := state.Sys().(syscall.WaitStatus)
	switch {
	case c.killed:
		return fmt.Sprintf("it did not stop within %s, and was killed", stopTimeout)
	case is && status.Signaled() && status.Signal() == syscall.SIGKILL:
		how += "; if no user did that, the machine had no memory left: see the kernel's log"
	}
	if why := cmp.Or(c.message.Problem, c.log.reason()); why != "" {
		return how + ": " + why
	}
	return how
}
