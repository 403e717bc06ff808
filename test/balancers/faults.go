package balancers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// Outage kills the whole node, or only its kube-apiserver, and calls during. Then it starts
// the same part with a release, and returns when the node is ready.
func (n *Node) Outage(ctx context.Context, whole bool, release string, during func() error) error {
	kill, start := n.API.Kill, n.StartAPI
	if whole {
		kill, start = n.Kill, n.Start
	}
	if err := kill(); err != nil {
		return err
	}
	if err := during(); err != nil {
		return fmt.Errorf("after the kill of %s: %w", n.ID, err)
	}
	if err := start(release); err != nil {
		return err
	}
	return n.AwaitReady(ctx)
}

// PauseLeader stops the sidecar that leads with SIGSTOP, calls during, and lets it go on. It
// returns when its node is ready.
func (f *Fleet) PauseLeader(ctx context.Context, during func(*Node) error) error {
	n, err := AwaitLeader(ctx, f.Nodes...)
	if err != nil {
		return err
	}
	if err := n.Sidecar.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err = during(n)
	if err := errors.Join(err, n.Sidecar.Signal(syscall.SIGCONT)); err != nil {
		return fmt.Errorf("while %s was paused: %w", n.ID, err)
	}
	return n.AwaitReady(ctx)
}

// AwaitLeader returns the first of some nodes that leads.
func AwaitLeader(ctx context.Context, nodes ...*Node) (leader *Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = cluster.Poll(ctx, func(ctx context.Context) error {
		for _, n := range nodes {
			status, err := n.Sidecar.Status(ctx)
			if err != nil {
				return err
			}
			if status.Election.State == "leading" {
				leader = n
				return nil
			}
		}
		return errors.New("no node leads")
	})
	return leader, err
}

// Others are all nodes except some.
func (f *Fleet) Others(but ...*Node) []*Node {
	return slices.DeleteFunc(slices.Clone(f.Nodes), func(n *Node) bool { return slices.Contains(but, n) })
}

// AwaitDone returns when the status is DONE by a release.
func (f *Fleet) AwaitDone(ctx context.Context, release string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return cluster.Poll(ctx, func(ctx context.Context) error {
		status, err := f.Nodes[0].Sidecar.Status(ctx)
		if now := status.Describe(); err == nil && !strings.HasPrefix(now, "DONE "+release+" ") {
			err = fmt.Errorf("the status is %s", now)
		}
		return err
	})
}
