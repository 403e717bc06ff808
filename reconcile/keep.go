package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/drift"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
	"github.com/lockstep-dev/lockstep/report"
)

// Keep keeps the objects as the pass that was just done for work left them. It watches them,
// and repairs the changes of other writers, by one apply for each (docs/protocol-objects.md#drift). It
// returns when ctx ends, or with an error that says why a full pass is due. Nothing is written
// after lease(), as in Reconcile. Of the Outcome, only Unsure is set.
func (r *Reconciler) Keep(ctx context.Context, work protocol.Work, lease func() time.Time) (protocol.Outcome, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return protocol.Outcome{}, err
	}
	defer end()
	if r.passed != nil {
		r.baseline, r.passed = r.passed.left(), nil
	}
	if b := r.cfg.Bundle.Get(); r.baseline == nil || r.baseline.Content != work.Content || b == nil || b.Digest != work.Content.Digest {
		return protocol.Outcome{}, &DriftError{errors.New("no complete pass of this content has just been made")}
	}
	k := newKeeper(&r.env, r.baseline, lease)
	err = k.run(ctx)
	if _, due := errors.AsType[*DriftError](err); due {
		// The baseline misses events, and the leader may be too busy to see this error. Only a
		// pass helps.
		r.baseline = nil
	}
	k.states = nil
	k.show()
	return protocol.Outcome{Unsure: k.unknown.Time()}, err
}

// keeper is one run of Keep. One goroutine owns all of it. The watches and the repairs run in
// their own goroutines, and send it messages.
type keeper struct {
	*drift.Baseline
	env      *env
	lease    func() time.Time
	messages chan drift.Message
	repaired chan repair

	queue   []*drift.Kept // drifted, to be repaired in this order
	running int           // repairs
	unknown exec.LastUnknown
	states  map[*drift.Watch]drift.Message // the newest without an event
	due     error                          // why a full pass is due; nil: none is
}

func newKeeper(e *env, b *drift.Baseline, lease func() time.Time) *keeper {
	return &keeper{
		Baseline: b, env: e, lease: lease, messages: make(chan drift.Message),
		repaired: make(chan repair, e.cfg.Concurrency), // as many as there can be
		states:   map[*drift.Watch]drift.Message{},
	}
}

// repair is one object that is being repaired.
type repair struct {
	object *drift.Kept
	event  *drift.Event
	began  time.Time
	before plan.Placed
	result exec.Result
	err    error
}

// run is the loop: it receives messages, and starts the repairs that are due.
// When it returns, no goroutine of it runs any more.
func (k *keeper) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var workers sync.WaitGroup
	defer func() {
		cancel(nil)
		workers.Wait()
		for range k.running {
			k.note(<-k.repaired)
		}
	}()
	k.follow(ctx, &workers, cancel)
	// Events that were received before, and not handled, are assessed again.
	for _, o := range k.Objects {
		o.Busy = false
		k.assess(o)
	}
	clock := time.NewTimer(0)
	defer clock.Stop()
	for k.due == nil {
		clock.Reset(k.startRepairs(ctx, &workers))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m := <-k.messages:
			k.receive(m)
		case r := <-k.repaired:
			k.running--
			k.note(r)
		case <-clock.C:
		}
	}
	return k.due
}

// follow starts the watches. One that cannot be kept open ends the loop.
func (k *keeper) follow(ctx context.Context, workers *sync.WaitGroup, cancel context.CancelCauseFunc) {
	watcher := drift.Watcher{
		Client: k.env.client, Catalog: k.env.catalog, Set: k.Set, Messages: k.messages,
		Members: k.Members, Keys: applyset.SortedKeys(k.Objects),
	}
	for _, w := range k.Watches {
		workers.Go(func() {
			if err := watcher.Follow(ctx, w); err != nil {
				cancel(&DriftError{err}) // no effect where ctx ended already
			}
		})
	}
}

// receive handles a message of a watch.
func (k *keeper) receive(m drift.Message) {
	if m.Event == nil {
		if was := k.states[m.From]; was.Open != m.Open || was.Problem != m.Problem {
			k.states[m.From] = m
			k.show()
		}
		return
	}
	o, kept := k.Objects[m.Event.Key]
	switch {
	case kept && o.Parent != m.From.Parent:
		return // another watch follows the parent
	case kept:
		if m.Event.After(o.Event) {
			o.Event = m.Event
		}
		k.assess(o)
	case k.UnexpectedMember(m.Event):
		k.due = &DriftError{fmt.Errorf("%s is of the set, but not in the bundle", m.Event.Key)}
	}
}

// assess handles the event of an object, unless a repair of it is under way.
func (k *keeper) assess(o *drift.Kept) {
	if o.Busy || o.Event == nil {
		return
	}
	switch k.Assess(o) {
	case drift.Stale, drift.Deleting:
		o.Event = nil
	case drift.Unrelated:
		o.SetPlaced(o.Event.Object)
		o.Event = nil
	case drift.NeedsPass:
		k.due = &DriftError{fmt.Errorf("%s was changed in a way that needs one", o.Key)}
	case drift.Drifted:
		if !slices.Contains(k.queue, o) {
			k.queue = append(k.queue, o)
		}
	}
}

// startRepairs starts the repairs that are due. It returns how long it takes until
// another one becomes due without an event.
func (k *keeper) startRepairs(ctx context.Context, workers *sync.WaitGroup) time.Duration {
	now, pause := time.Now(), time.Hour
	if next := k.env.fights.Expire(now); !next.IsZero() {
		pause = next.Sub(now)
	}
	k.queue = slices.DeleteFunc(k.queue, func(o *drift.Kept) bool {
		if o.Event == nil {
			return true // a later event needs no repair
		}
		if notBefore := k.env.fights.NotBefore(o.Key); now.Before(notBefore) {
			pause = min(pause, notBefore.Sub(now))
			return false
		}
		if k.running == k.env.cfg.Concurrency {
			return false
		}
		r := repair{object: o, event: o.Event, began: now, before: o.Placed}
		o.Event, o.Busy = nil, true
		k.running++
		workers.Go(func() { k.repaired <- k.repair(ctx, r) })
		return true
	})
	if !slices.EqualFunc(k.env.fights.Report(), k.env.report.Get().Drift.Fights, sameFight) {
		k.show()
	}
	return pause
}

// repair repairs an object. It runs beside the loop, and reads nothing that the
// loop changes.
func (k *keeper) repair(ctx context.Context, r repair) repair {
	a := exec.API{Client: k.env.client, Set: k.Set, Lease: k.lease, Unknown: &k.unknown}
	live := r.event.Object
	if r.event.Deleted {
		live = nil // the last state of an object that was deleted, or lost its label, does not count
	}
	if r.object.Parent {
		r.result, r.err = k.repairParent(ctx, a, live)
	} else {
		c := plan.Change{Wanted: r.object.Wanted, Resource: r.object.Resource, Live: live}
		r.result, r.err = a.Apply(ctx, c, k.Content)
	}
	return r
}

func (k *keeper) repairParent(ctx context.Context, a exec.API, live *kube.Object) (exec.Result, error) {
	var p applyset.Parent
	verb := exec.VerbCreate
	if live != nil {
		p, verb = applyset.DecodeParent(live), exec.VerbApply
	}
	want, err := p.With(k.Set, k.Parent)
	if err != nil {
		return exec.Result{}, err
	}
	written, err := a.WriteParent(ctx, p, want)
	return exec.Result{Verb: verb, Live: written.Object}, err
}

// note notes the result of a repair.
func (k *keeper) note(r repair) {
	o := r.object
	o.Busy = false
	if r.err != nil || r.result.Failure != "" {
		if o.Event == nil {
			o.Event = r.event // it was not repaired yet
		}
		if k.due == nil {
			k.due = r.passDue()
		}
		return
	}
	if !o.Parent {
		k.env.memory.note(map[applyset.Key]plan.Placed{o.Key: plan.PlacedAs(o.Wanted, r.result.Live)})
		k.env.metrics.wrote(r.result.Verb)
	}
	o.SetPlaced(r.result.Live)
	if r.result.Verb != exec.VerbNone {
		k.count(r)
	}
	k.assess(o)
}

// passDue says why a full pass is due after a repair that failed.
func (r repair) passDue() error {
	err := r.err
	if err == nil {
		err = errors.New(r.result.Failure)
	}
	return &DriftError{fmt.Errorf("repair %s: %w", r.object.Key, err)}
}

// count counts a repair, and finds fights.
func (k *keeper) count(r repair) {
	var now *kube.Object
	if !r.event.Deleted {
		now = r.event.Object
	}
	key, change := r.object.Key, ownership.ChangeSince(r.before.Own, now)
	begun := k.env.fights.Repaired(key, time.Now(), change)
	attrs := []any{
		"object", key.String(), "verb", string(r.result.Verb), "fieldManager", change.Manager, "fields", change.Fields,
	}
	switch {
	case begun:
		k.env.log.Warn("fight with another writer, repairs are slowed down", append(attrs, "repairs", k.env.fights.Repairs(key))...)
	case k.env.fights.Contested(key):
		k.env.log.Debug("object repaired", attrs...)
	default:
		k.env.log.Info("object repaired", attrs...)
	}
	k.env.metrics.repaired(r.result.Verb, time.Since(r.began))
	k.env.drift.CountRepair(key.String(), report.At(time.Now()))
	k.show()
}

// show publishes how the objects are kept.
func (k *keeper) show() {
	d := &k.env.drift
	d.Fights, d.Watching, d.Problem = k.env.fights.Report(), len(k.Watches) > 0, ""
	for _, w := range k.Watches {
		d.Watching, d.Problem = d.Watching && k.states[w].Open, cmp.Or(d.Problem, k.states[w].Problem)
	}
	now := k.env.report.Get()
	now.Drift = *d
	k.env.metrics.kept(*d)
	k.env.report.Set(now)
}

func sameFight(a, b report.Fight) bool { return a.Object == b.Object && a.Repairs == b.Repairs }
