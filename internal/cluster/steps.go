package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/enrol"
)

// step is one part of a flow. It can be run again: after an error that is transient,
// and after the process was killed anywhere in it.
type step struct {
	name string // of /status and the log, and for the tests that kill at a step
	run  func(context.Context, *flow) error
}

// flow is the way of this node into its cluster: the state that its steps share.
type flow struct {
	parts
	// held publishes that the directory is locked, and belongs to a node in a cluster.
	held *event.Value[bool]
	// open is openDisk, and join is enrol.Join: the disk and the network, of which tests have others.
	open func(path string) (*datadir.Dir, disk, error)
	join func(context.Context, enrol.Request) (enrol.Answer, error)
	// joining are the members in the answer to the join; nil: this node did not need one.
	joining []etcd.Member
	asked   bool // a member was asked to let this node join
	// lockedSince is when the directory was first found in use; zero: it was not.
	lockedSince time.Time
}

// flowOf returns the flow of a node that has taken no step yet.
func flowOf(p parts, held *event.Value[bool]) *flow {
	return &flow{parts: p, held: held, open: openDisk, join: enrol.Join}
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
