package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (p program) waitReadyCommand() *cobra.Command {
	var server serverFlags
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait-ready",
		Short: "Wait until the gate of a running sidecar is ready",
		Long: `Wait until the gate of a running sidecar is ready; say why it waits when the reason
changes. For init containers, systemd units and exec probes.

Exit codes: 0 ready, 1 the sidecar refuses to answer, 2 wrong usage, 3 not ready
in time.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout < 0 {
				return usagef("--timeout: %s: want 0 or more", timeout)
			}
			c, err := server.client()
			if err != nil {
				return err
			}
			return p.waitReady(cmd.Context(), c, timeout)
		},
	}
	server.bind(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "How long to wait at most. 0 waits without a limit.")
	return cmd
}

// waitReady waits for the verdict, not for /readyz: with --apiserver-readyz that
// waits for an apiserver which may be waiting for this.
func (p program) waitReady(ctx context.Context, c *client, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	why := "nothing heard from " + c.base
	ready := false
	because := func(reason, text string) {
		if reason != why {
			fmt.Fprintf(p.stderr, "waiting: %s\n", text)
		}
		why = reason
	}
	err := c.follow(ctx, follower{
		each: func(a answer) (bool, error) {
			v := a.report.Ready
			ready = v.Ready
			if !ready {
				because(v.Reason, clean(v.Reason+": "+v.Message))
			}
			return ready, nil
		},
		lost: func(err error) { because(err.Error(), err.Error()) },
	})
	switch {
	case err != nil:
		return err
	case ready:
		fmt.Fprintln(p.stdout, "ready")
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w (%s): %s", errNotReady, timeout, why)
	}
	return ctx.Err()
}
