package views

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
)

// onceTimeout bounds wait-ready --once without --timeout: the check script of a balancer may take about a second.
const onceTimeout = time.Second

// waitReadyCommand is sidecar wait-ready.
func (p program) waitReadyCommand() *cobra.Command {
	var server reach.Server
	var timeout time.Duration
	once := false
	cmd := &cobra.Command{
		Use:   "wait-ready",
		Short: "Wait until the gate of a running sidecar is open",
		Long: `Wait until the gate of a running sidecar is open. A new reason for waiting
is printed to stderr at once, another cause of the same reason after 3 s (after 10 s if
causes keep changing), and the last one at the end. Use this in init containers, systemd units and exec probes.

With --once, do not wait: request /readyz once, and exit at once. Use this as the check
script of keepalived, for example. A sidecar with --apiserver-readyz then includes
/readyz of its kube-apiserver in the answer, as it does for load balancers.

Exit codes: 0 the gate is open, 1 the sidecar rejected the request, 2 wrong usage,
3 the gate did not open before --timeout; with --once: it is closed, or the sidecar
did not answer.`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout < 0 {
				return console.Usagef("--timeout: %s: must be 0 or more", timeout)
			}
			c, err := server.Client(p.Program)
			switch {
			case err != nil:
				return err
			case once:
				return p.askReady(cmd.Context(), c, cmp.Or(timeout, onceTimeout))
			}
			return p.waitReady(cmd.Context(), c, timeout)
		},
	}
	server.Bind(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "Maximum time to wait. 0: no limit; with --once: "+onceTimeout.String()+".")
	cmd.Flags().BoolVar(&once, "once", false, "Do not wait: request /readyz once, as load balancers do.")
	return cmd
}

// maxReadyz bounds the body of /readyz that is read: it is six lines long.
const maxReadyz = 64 << 10

// askReady requests /readyz once.
func (p program) askReady(ctx context.Context, c *reach.Sidecar, timeout time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := c.Request(limited, "/readyz?verbose", "text/plain")
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w: no answer from %s within %s", console.ErrClosed, c.Base, timeout)
	case err != nil:
		return fmt.Errorf("%w: %w", console.ErrClosed, err)
	}
	defer reach.CloseBody(resp)
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReadyz))
	switch {
	case err != nil:
		return fmt.Errorf("%w: read /readyz: %w", console.ErrClosed, err)
	case resp.StatusCode == http.StatusOK:
		fmt.Fprintln(p.Stdout, "ready")
		return nil
	case resp.StatusCode == http.StatusServiceUnavailable:
		return fmt.Errorf("%w: %s", console.ErrClosed, cmp.Or(failedChecks(string(body)), resp.Status))
	}
	return &reach.AnswerError{URL: c.Base + "/readyz", Code: resp.StatusCode, Status: resp.Status}
}

// failedChecks returns why the checks of a verbose /readyz failed. A gate that is closed
// fails several for one reason: each reason is returned once.
func failedChecks(body string) string {
	var out []string
	for line := range strings.Lines(body) {
		name, why, failed := strings.Cut(strings.TrimSpace(line), " failed: ")
		if failed && strings.HasPrefix(name, "[-]") && (len(out) == 0 || out[len(out)-1] != terminal.Clean(why)) {
			out = append(out, terminal.Clean(why))
		}
	}
	return strings.Join(out, "; ")
}

// settles is how long a cause must last before it is printed, if the one before it had the same reason: while a
// kube-apiserver starts, they change several times a second.
const settles = 3 * time.Second

// unsettled is how long causes of one reason may change without a line: some never settle, such as two that take turns.
const unsettled = 10 * time.Second

// settledCauses prints a new reason for a closed gate at once. It prints another cause of the same reason when it has
// settled, or when others than the printed one have been there for too long together.
type settledCauses struct {
	mu     sync.Mutex // mu guards the fields below
	causes console.WaitCauses
	cause  string        // the newest one
	since  time.Time     // when that began
	other  time.Duration // how long causes before it were not the printed one
	timer  *time.Timer   // prints it; nil: none is due
}

func (w *settledCauses) print(cause string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	same := console.Lasting(cause) == console.Lasting(w.cause)
	if !same && w.timer != nil {
		w.other += time.Since(w.since)
	}
	w.cause = cause
	if same {
		return
	}
	w.cancel()
	reason, _, _ := strings.Cut(cause, ": ")
	printed, _, _ := strings.Cut(w.causes.Last, ": ")
	if reason != printed {
		w.printNewest()
		return
	}
	if console.Lasting(cause) == console.Lasting(w.causes.Last) {
		return
	}
	w.since = time.Now()
	w.timer = time.AfterFunc(min(settles, unsettled-w.other), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.timer != nil {
			w.printNewest()
		}
	})
}

// printNewest needs mu.
func (w *settledCauses) printNewest() {
	w.causes.Print(w.cause)
	w.other, w.timer = 0, nil
}

// end returns the newest cause. Nothing is printed after it.
func (w *settledCauses) end() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel()
	return w.cause
}

// cancel needs mu.
func (w *settledCauses) cancel() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.timer = nil
}

// waitReady waits for the verdict, not for /readyz: with --apiserver-readyz, that
// waits for a kube-apiserver which may be waiting for this command.
func (p program) waitReady(ctx context.Context, c *reach.Sidecar, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	causes := settledCauses{causes: console.WaitCauses{Out: p.Stderr}, cause: "no answer from " + c.Base}
	ready := false
	err := c.Follow(ctx, reach.Follower{
		Each: func(a reach.Answer) (bool, error) {
			v := a.Report.Ready
			ready = v.Ready
			if !ready {
				causes.print(terminal.Clean(v.Reason + ": " + v.Message))
			}
			return ready, nil
		},
		Lost: func(err error) { causes.print(err.Error()) },
	})
	last := causes.end()
	switch {
	case err != nil:
		return err
	case ready:
		fmt.Fprintln(p.Stdout, "ready")
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w (%s): %s", console.ErrNotReady, timeout, last)
	}
	return ctx.Err()
}
