package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// step is one part of a flow. It can be run again: after an error that is transient,
// and after the process was killed anywhere in it.
type step struct {
	name string // of /status and the log, and for the tests that kill at a step
	run  func(context.Context, *flow) error
}

// flow is one way into the cluster: the state that its steps share.
type flow struct {
	cfg    Embedded
	client *etcd.Client
	log    *slog.Logger
	// plainLog is for the parts that log as a worker of their own.
	plainLog *slog.Logger
	// show sets the problem in the status.
	show func(problem string)

	// shared publishes the membership.
	shared *sharer
	// memberState publishes the state of the member.
	memberState *event.Value[member.State]
	// measures publishes the measures of the member.
	measures *event.Value[membership.Measures]
	// observed publishes all members.
	observed *event.Value[[]Observed]

	// held publishes that the directory is locked, and belongs to a node in a cluster.
	held *event.Value[bool]

	directory *members.Directory // before the first step

	resident
	// stepping is held during each step of a node in its cluster; it is the Manager's.
	stepping sync.Locker
	// joining are the members in the answer to the join; nil: this node did not need one.
	joining []etcd.Member
	asked   bool // a member was asked to let this node join
	// renewEvery is the pause between two checks of the certificates; 0: the default.
	renewEvery time.Duration
	// lockedSince is when the directory was first found in use; zero: it was not.
	lockedSince time.Time
}

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// carryOut runs the steps in their order, each until it succeeds or fails for good.
func (f *flow) carryOut(ctx context.Context, name string, steps []step) error {
	for _, s := range steps {
		if err := f.repeat(ctx, s); err != nil {
			f.log.Debug("step failed", "flow", name, "step", s.name, "err", err)
			return err
		}
		f.log.Debug("step done", "flow", name, "step", s.name)
		if f.dir != nil && f.marker.Phase.InCluster() && !f.held.Get() {
			f.held.Set(true)
		}
		afterStep(name, s.name)
		stopAfterStep(ctx, name, s.name)
	}
	return nil
}

// repeat runs one step until it does not fail with a transient error.
func (f *flow) repeat(ctx context.Context, s step) error {
	pauses := backoff.Backoff{First: firstPause, Max: maxPause, Jitter: 0.2}
	for {
		err := s.run(ctx, f)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, again := errors.AsType[transientError](err); !again {
			if err == nil {
				f.show("")
			}
			return err
		}
		f.show(err.Error())
		if !pauses.Sleep(ctx) {
			return ctx.Err()
		}
	}
}

// publish publishes the phase of a marker that is on the disk, and once the trusted CAs.
func (f *flow) publish(m datadir.Marker) {
	trust, err := trustOf(f.dir.Layout)
	f.shared.change(func(now *Membership) {
		if err == nil && now.Trust == "" { // later, only a restart of its readers changes it
			now.Trust = trust
		}
		now.Phase = phaseOf(m.Phase)
		if m.Phase == datadir.WithoutMember || m.Phase == datadir.Adding {
			f.shared.used = false
		}
	})
}
