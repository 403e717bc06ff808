package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/netns"
	"github.com/lockstep-dev/lockstep/test/soak/judge"
)

const (
	// healing is the limit for Progress: from the end of all faults until all nodes
	// are ready with the newest release and its objects are in place.
	healing = 2 * time.Minute
	// lanes is how many faults may happen at the same time.
	lanes = 3
)

// Config is the configuration of a run.
type Config struct {
	Cluster  *cluster.Cluster // with etcd members only, or with nothing; required
	Network  *netns.Network   // with a machine for each node: the nodes are their own quorum; nil: Cluster runs the members
	Shape    shape            // of the control plane; required
	Assets   string           // directory of the sidecar binary; required
	Dir      string           // for bundles and kubeconfigs; required
	Seed     uint64           // of the schedule
	Duration time.Duration    // of upgrades and faults; start and end take extra time
	// Strangers attack the ports of the nodes. It needs a Network.
	Strangers bool
	Only      []string // names of the faults that may happen; nil: all
	Logf      func(format string, args ...any)
}

// Result is the result of a run.
type Result struct {
	Histories  []judge.History // one for each age of etcd, which ends with a restore
	Violations []judge.Violation
	Counts     judge.Counts
	Done       map[string]int // steps and faults by kind
	Exits      []string       // sidecars that exited by themselves; exits without an explanation are violations, too
	Took       time.Duration
}

// Run starts a control plane, exposes it to upgrades and faults, and judges the
// record. An error means that the run could not be started or recorded.
func Run(ctx context.Context, cfg Config) (Result, error) {
	began := time.Now()
	logf := func(format string, args ...any) {
		cfg.Logf("%8.3fs "+format, append([]any{time.Since(began).Seconds()}, args...)...)
	}
	w, err := newWorld(ctx, cfg, began, logf)
	if err != nil {
		return Result{}, errors.Join(err, w.close())
	}
	recording, stop := context.WithCancel(ctx)
	recorded := make(chan error, 1) // one error, which waits until it is read
	go func() { recorded <- w.rec.run(recording) }()

	stuck, err := w.live(ctx, cfg)
	if err == nil {
		err = w.rec.catchUp(ctx)
	}
	stop()
	services, unread := w.serviceMoments()
	if err := errors.Join(err, <-recorded, w.close(), unread); err != nil {
		return Result{}, err
	}
	w.rec.add(func(h *judge.History) { h.Services = services })
	out := Result{Histories: w.rec.histories(), Done: w.count, Took: time.Since(began)}
	for age, h := range out.Histories {
		violations, counts := judge.Judge(h)
		for i := range violations {
			violations[i].Age = age
		}
		out.Violations = append(out.Violations, violations...)
		out.Counts.Add(counts)
	}
	for _, e := range w.exits {
		out.Exits = append(out.Exits, e.text)
		if !e.explained {
			out.Violations = append(out.Violations, judge.Violation{
				Invariant: judge.StaysUp, Revision: e.revision, Text: e.text, Age: e.age,
			})
		}
	}
	if stuck != nil {
		out.Violations = append(out.Violations, judge.Violation{
			Invariant: judge.Progress, Revision: w.rec.seenUpTo(), Text: stuck.Error(), Age: len(out.Histories) - 1,
		})
	}
	return out, nil
}

// live starts the sidecars, runs steps and faults for cfg.Duration, and lets the
// control plane recover. stuck says why it does not recover.
func (w *world) live(ctx context.Context, cfg Config) (stuck, err error) {
	for _, n := range w.nodes {
		if n.running() != nil {
			continue // it runs a member of etcd
		}
		n.busy.Lock()
		err := w.start(n, 0)
		n.busy.Unlock()
		if err != nil {
			return nil, err
		}
	}
	for _, n := range w.nodes {
		if err := w.ready(ctx, n, time.Minute); err != nil {
			return nil, fmt.Errorf("begin: %w", err)
		}
		if _, err := n.running().Status(ctx); err != nil {
			return nil, fmt.Errorf("begin: %w", err) // the end needs it
		}
	}
	observing, end := context.WithCancel(ctx)
	var observers sync.WaitGroup
	defer func() { end(); observers.Wait() }()
	if w.shape.moves {
		observers.Go(func() { w.watchRoles(observing) })
		observers.Go(func() { w.write(observing) })
	}
	if w.besieged {
		observers.Go(func() { w.attack(observing) })
	}
	w.logf("all nodes are ready with %s; steps and faults begin; %s", releases[0].name, w.variant)
	limited, cancel := context.WithTimeout(ctx, cfg.Duration)
	defer cancel()
	var lane sync.WaitGroup
	lane.Go(func() {
		p := newPlan(cfg.Seed, 0, w.shape)
		for pause(limited, p.between(0, 2)) {
			w.do(limited, p.nextStep())
		}
	})
	for i := range lanes {
		lane.Go(func() {
			p := newPlan(cfg.Seed, uint64(1+i), w.shape)
			p.only = cfg.Only
			for f := p.nextFault(); pause(limited, f.pause); f = p.nextFault() {
				w.inject(limited, f)
			}
		})
	}
	lane.Wait()
	if err := errors.Join(ctx.Err(), w.broken); err != nil {
		return nil, err
	}
	w.logf("steps and faults are over; all nodes move to %s", releases[newest()].name)
	return w.heal(ctx), nil
}

// heal moves all nodes to the newest release and waits until the control plane
// converges.
func (w *world) heal(ctx context.Context) error {
	w.endRollback(ctx, 5)
	for _, n := range w.nodes {
		w.switchTo(ctx, n, newest(), false, false)
		w.giveRole(ctx, n)
	}
	ctx, cancel := context.WithTimeout(ctx, healing)
	defer cancel()
	began := time.Now()
	if err := cluster.Poll(ctx, w.converged); err != nil {
		return fmt.Errorf("%s after the last fault: %w%s", time.Since(began).Round(time.Second), err, w.blockers())
	}
	w.logf("converged %s after the last upgrade", time.Since(began).Round(100*time.Millisecond))
	if !w.shape.moves {
		return nil
	}
	w.calmDown(ctx)
	return w.stillThere(ctx)
}

// converged returns nil if the newest release is DONE, every node is ready and all
// objects are in place.
func (w *world) converged(ctx context.Context) error {
	s, err := w.status(ctx)
	if err != nil {
		return err
	}
	want := mustRelease(releases[newest()].name)
	if s.Kind != protocol.StatusPresent || s.Status.State != protocol.Done || s.Status.Version.Release != want {
		return fmt.Errorf("the status is %s, want DONE of %s", s, want)
	}
	for _, n := range w.nodes {
		if err := n.ready(ctx); err != nil {
			return err
		}
	}
	if w.shape.moves {
		if err := w.changed(); err != nil {
			return err
		}
	}
	if err := w.onlyLiveRecords(ctx); err != nil {
		return err
	}
	return w.inPlace(ctx)
}

// blockers returns the /status of all sidecars, with their blockers.
func (w *world) blockers() string {
	var b strings.Builder
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, n := range w.nodes {
		s := n.running()
		if s == nil {
			continue
		}
		_, body, err := s.Get(ctx, "/status")
		if err != nil {
			body = err.Error()
		}
		fmt.Fprintf(&b, "\n%s: %s", n.name(), body)
	}
	return b.String()
}

// catchUp returns when the recorder received everything up to the revision
// that was read last.
func (r *recorder) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var from int64
	return cluster.Poll(ctx, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if from == 0 {
			from = r.read
		}
		if r.next <= from {
			return fmt.Errorf("received up to %d of %d", r.next-1, from)
		}
		return nil
	})
}

// Report summarizes the steps, the faults and the judged events.
func (r Result) Report() string {
	var b strings.Builder
	c := r.Counts
	fmt.Fprintf(&b, "judged in %s: %d probes (%d ready, %d between states), %d revisions, ",
		r.Took.Round(time.Second), c.Probes, c.Ready, c.Verdicts, c.Revisions)
	fmt.Fprintf(&b, "%d of the status by %d leaders, %d restrictions, ", c.Statuses, c.Leaders, c.Restrictions)
	fmt.Fprintf(&b, "%d object writes by sidecars (%d late), %d by the soak, %d changes of content\n",
		c.ObjectWrites, c.LateWrites, c.Affected, c.Contents)
	fmt.Fprintf(&b, "%d restarts of services that changed, %d of them in a turn\n", c.Restarts, c.InTurn)
	for _, kind := range slices.Sorted(maps.Keys(r.Done)) {
		fmt.Fprintf(&b, "  %4d %s\n", r.Done[kind], kind)
	}
	for _, exit := range r.Exits {
		fmt.Fprintf(&b, "  %s\n", exit)
	}
	return b.String()
}
