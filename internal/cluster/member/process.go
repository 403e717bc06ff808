package member

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/internal/child"
)

const (
	// stopTimeout is the time for a child to stop gracefully. The child gives up
	// earlier by itself.
	stopTimeout = 14 * time.Second
	// drainTimeout is far above the time for reading what the child wrote last. No other process has
	// its output.
	drainTimeout = time.Minute
	// maxLine bounds one line of a child's output.
	maxLine = 256 << 10
)

// process is one child.
type process struct {
	*child.Child
	stdin io.Closer
	log   *logReader

	message Message // the last one that says how it ended; read after finish
}

// startChild starts a child. It calls receive with each message, on another goroutine.
func startChild(ctx context.Context, cfg Config, receive func(Message)) (*process, error) {
	if len(cfg.Command) == 0 {
		return nil, errEmptyCommand
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the etcd member: %w", err)
	}
	c := &process{stdin: w, log: newLogReader(cfg.Log)}
	c.Child, err = child.Start(ctx, nil, func() *exec.Cmd {
		cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
		cmd.Stdin, cmd.Env = r, child.Environ(os.Environ(), isProxy)
		if cfg.Lock != nil {
			cmd.ExtraFiles = []*os.File{cfg.Lock} // becomes LockFD
		}
		return cmd
	}, func(stdout io.Reader) {
		child.Lines(stdout, maxLine, nil, func(line string) { c.output(ctx, line, receive) })
	}, func(stderr io.Reader) {
		child.Lines(stderr, maxLine, nil, func(line string) { c.log.read(ctx, line) })
	})
	_ = r.Close() // the child has its own copy
	if err != nil {
		_ = w.Close() // nothing was written
		return nil, fmt.Errorf("start the etcd member: %w", err)
	}
	// The child reads it before anything else. If it ended already, its exit says why.
	_ = json.NewEncoder(w).Encode(cfg.Spec)
	return c, nil
}

// isProxy reports whether a variable is a proxy's, through which etcd would reach its peers.
func isProxy(name string) bool { return strings.HasSuffix(strings.ToUpper(name), "_PROXY") }

// output reads a line of the standard output.
func (c *process) output(ctx context.Context, line string, receive func(Message)) {
	var m Message
	if json.Unmarshal([]byte(line), &m) != nil {
		c.log.read(ctx, line)
		return
	}
	if m.Event == Removed || m.Event == Failed || m.Event == Again {
		c.message = m
	}
	receive(m)
}

// finish waits for the child, and for its output. When ctx ends, it asks the child to stop, and
// kills one that takes too long.
func (c *process) finish(ctx context.Context) {
	select {
	case <-c.Ended():
	case <-ctx.Done():
		c.log.stop()
		_ = c.stdin.Close() // the child sees the end of its input, if it did not end already
		c.Await(stopTimeout)
		if c.Late() {
			c.Kill()
		}
		<-c.Ended() // it has the data directory until then
	}
	c.Finish(drainTimeout)
	_ = c.stdin.Close() // also of a child that ended by itself
}

// ending returns how the child ended. Call it after finish.
func (c *process) ending() ending {
	return ending{reason: c.reason(), output: c.log.output(), removed: c.message.Event == Removed, again: c.message.Event == Again}
}

func (c *process) reason() string {
	if c.Late() {
		return fmt.Sprintf("it did not stop within %s, and was killed", stopTimeout)
	}
	how := c.Reason()
	if why := cmp.Or(c.message.Problem, c.log.reason()); why != "" {
		return how + ": " + why
	}
	return how
}
