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
		Short: "Wait until the gate of a running sidecar is open",
		Long: `Wait until the gate of a running sidecar is open. Each reason for waiting is printed
to stderr. Use this in init containers, systemd units and exec probes.

Exit codes: 0 the gate is open, 1 the sidecar rejected the request, 2 wrong usage,
3 the gate did not open before --timeout.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout < 0 {
				return usagef("--timeout: %s: must be 0 or more", timeout)
			}
			c, err := server.client()
			if err != nil {
				return err
			}
			return p.waitReady(cmd.Context(), c, timeout)
		},
	}
	server.bind(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "Maximum time to wait. 0: no limit.")
	return cmd
}

// waitReady waits for the verdict, not for /readyz: with --apiserver-readyz, that
// waits for a kube-apiserver which may be waiting for this command.
func (p program) waitReady(ctx context.Context, c *statusClient, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	why := "no answer from " + c.base
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
