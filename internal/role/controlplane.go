package role

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// Member is this node's member of the etcd that the sidecars run.
type Member interface {
	// MemberFacts returns the facts about this member. Known and Wanted stay false. If the members do
	// not answer, Listed is unknown, and the error contains the reason.
	MemberFacts(context.Context) (membership.Facts, error)
	// TakeMemberStep takes a step. After an error it can be called again.
	TakeMemberStep(context.Context, membership.Step) error
	// Trouble reports why no step can be taken now; empty: nothing is wrong.
	Trouble(problem string)
}

// ControlPlaneConfig configures a ControlPlane. All fields are required.
type ControlPlaneConfig struct {
	Member Member
	Roles  *event.Value[Local]
	Log    *slog.Logger
}

// ControlPlane makes this node a member of etcd when it gets the role consensus, and removes the
// member when the node loses the role, while everything else runs (docs/protocol-membership.md#membership). It
// reads the roles and the cluster manager's facts about the member. It writes no value: the cluster
// manager takes the steps, and publishes how to reach etcd (cluster.Membership).
// membership.NextStep decides their order, not this package.
type ControlPlane struct {
	cfg ControlPlaneConfig
	was membership.Step // the step before, for the log
}

// NewControlPlane returns a worker that starts nothing before Run.
func NewControlPlane(cfg ControlPlaneConfig) *ControlPlane {
	return &ControlPlane{cfg: cfg, was: membership.AsIs}
}

const (
	// The pauses after a failed step. A majority may be down, or other nodes may have to start first.
	minStepPause = 100 * time.Millisecond
	maxStepPause = 5 * time.Second
)

// Run takes steps until ctx ends, and returns ctx's error. A change of the roles ends a
// step that waits.
func (c *ControlPlane) Run(ctx context.Context) error {
	pauses := backoff.Backoff{First: minStepPause, Max: maxStepPause, Jitter: 0.2}
	for {
		local, rolesChanged := c.cfg.Roles.Load()
		step, err := c.step(ctx, local, rolesChanged)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var again time.Duration
		switch {
		case closed(rolesChanged):
			continue
		case err != nil:
			c.cfg.Log.Debug("step not taken, trying again", "step", step.String(), "err", err)
			c.cfg.Member.Trouble(step.String() + ": " + err.Error())
			again = pauses.Next()
		case step != membership.AsIs:
			pauses.Reset()
			continue
		default:
			pauses.Reset()
			c.cfg.Member.Trouble("")
		}
		if !event.WaitFor(ctx, again, rolesChanged) {
			return ctx.Err()
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// step takes the next step. A change of the roles ends it early.
func (c *ControlPlane) step(ctx context.Context, local Local, rolesChanged <-chan struct{}) (membership.Step, error) {
	ctx, end := event.WithEnd(ctx, rolesChanged)
	defer end()
	facts, unknown := c.cfg.Member.MemberFacts(ctx)
	facts.Known, facts.Wanted = local.Known(), local.Roles.Consensus
	step := membership.NextStep(facts)
	if step == membership.AskMembers {
		return step, errors.Join(unknown, ctx.Err())
	}
	if step != c.was && step != membership.AsIs {
		c.cfg.Log.Info("next step about this node's etcd member", "step", step.String())
	}
	c.was = step
	if step == membership.AsIs {
		return step, nil
	}
	return step, c.cfg.Member.TakeMemberStep(ctx, step)
}
