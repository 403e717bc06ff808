package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
	"github.com/lockstep-dev/lockstep/reconcile/report"
)

// Keep keeps the objects as the pass left them that was just done for work: it
// watches them, and puts back what others change, one apply for each (DESIGN 6.5).
// It returns when ctx ends, or with an error that says why a full pass is due.
// Nothing is written after lease(), as in Reconcile. Outcome.Unsure alone is set.
func (r *Reconciler) Keep(ctx context.Context, work protocol.Work, lease func() time.Time) (protocol.Outcome, error) {
	select {
	case <-ctx.Done():
		return protocol.Outcome{}, context.Cause(ctx)
	case <-r.turn:
		defer func() { r.turn <- struct{}{} }()
	}
	if r.passed != nil {
		r.baseline, r.passed = r.passed.baseline(), nil
	}
	if b := r.cfg.Bundle.Get(); r.baseline == nil || r.baseline.content != work.Content || b == nil || b.Digest != work.Content.Digest {
		return protocol.Outcome{}, &DriftError{Reason: "no complete pass of this content has just been made"}
	}
	k := &keeper{
		env: &r.env, baseline: r.baseline, lease: lease, messages: make(chan message),
		done: make(chan repair, r.cfg.Concurrency), // as many as there can be
		open: map[*watched]bool{}, problems: map[*watched]string{},
	}
	err := k.run(ctx)
	if _, due := errors.AsType[*DriftError](err); due {
		// Not all that was heard is in r.baseline, and the leader may have been too
		// busy to hear of it: nothing but a pass helps.
		r.baseline = nil
	}
	k.open, k.problems = nil, nil
	k.show()
	return protocol.Outcome{Unsure: k.unsure.last()}, err
}

// keeper is one run of Keep. All of it belongs to one goroutine; the watches
// and repairs, which have their own, send it messages.
type keeper struct {
	*baseline
	env      *env
	lease    func() time.Time
	messages chan message
	done     chan repair

	queue    []*kept // drifted, to be repaired in this order
	running  int     // repairs
	unsure   doubt
	open     map[*watched]bool
	problems map[*watched]string // why one is not open
	end      error               // why a full pass is due; nil: none is
}

// message is what a watch tells.
type message struct {
	from    *watched
	news    *news
	open    bool   // where news is nil: it stands now
	problem string // where news is nil: why it does not
}

// repair is one object being put back.
type repair struct {
	object *kept
	cause  *news
	seen   time.Time // when the news were heard
	before placed
	result result
	err    error
}

// run is the loop: hear what happened, start the repairs that are due. No
// goroutine of it runs any more when it returns.
func (k *keeper) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var workers sync.WaitGroup
	defer func() {
		cancel(nil)
		workers.Wait()
		for range k.running {
			k.took(<-k.done)
		}
	}()
	for _, w := range k.watched {
		workers.Go(func() {
			if err := k.follow(ctx, w); err != nil {
				cancel(err)
			}
		})
	}
	// What was heard before, and not done, is judged anew.
	for _, o := range k.objects {
		o.busy = false
		k.consider(o)
	}
	clock := time.NewTimer(0)
	defer clock.Stop()
	for k.end == nil {
		clock.Reset(k.start(ctx, &workers))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m := <-k.messages:
			k.hear(m)
		case r := <-k.done:
			k.running--
			k.took(r)
		case <-clock.C:
		}
	}
	return k.end
}

// hear takes a message.
func (k *keeper) hear(m message) {
	if m.news == nil {
		if k.open[m.from] != m.open || k.problems[m.from] != m.problem {
			k.open[m.from], k.problems[m.from] = m.open, m.problem
			k.show()
		}
		return
	}
	o, found := k.objects[m.news.key]
	if found && o.parent != m.from.whole {
		return // the parent has a watch of its own
	}
	if !found {
		if !k.optional[m.news.key] && stranger(m.news, k.known) {
			k.end = &DriftError{Reason: fmt.Sprintf("%s is of the set, and the bundle lacks it", m.news.key)}
		}
		return
	}
	if o.news == nil || newer(m.news.version, o.news.version) {
		o.news = m.news
	}
	k.consider(o)
}

// consider judges the news of an object that no repair is under way for.
func (k *keeper) consider(o *kept) {
	if o.busy || o.news == nil {
		return
	}
	switch k.judge(o) {
	case findOld, findWaiting:
		o.news = nil
	case findAside:
		o.placed, o.news = placedWithFields(o.news.obj, o.want.form), nil
	case findBeyond:
		k.end = &DriftError{Reason: o.key.String() + " was changed in a way that needs one"}
	case findDrift:
		if !slices.Contains(k.queue, o) {
			k.queue = append(k.queue, o)
		}
	}
}

func (k *keeper) judge(o *kept) finding {
	if o.parent {
		return judgeParentNews(o, o.news, k.env.set, k.record, k.contents)
	}
	return judgeNews(o, o.news, k.content.Epoch)
}

// start starts the repairs that are due, and returns how long it is until time
// alone makes a difference.
func (k *keeper) start(ctx context.Context, workers *sync.WaitGroup) time.Duration {
	now, wait := time.Now(), time.Hour
	if next := k.env.quarrels.settle(now); !next.IsZero() {
		wait = next.Sub(now)
	}
	if !slices.EqualFunc(k.env.quarrels.fights(), k.env.report.Get().Drift.Fights, sameFight) {
		k.show()
	}
	k.queue = slices.DeleteFunc(k.queue, func(o *kept) bool {
		if o.news == nil {
			return true // what came after it asks for nothing
		}
		due := k.env.quarrels.notBefore(o.key)
		if k.running == k.env.concurrency || now.Before(due) {
			if now.Before(due) {
				wait = min(wait, due.Sub(now))
			}
			return false
		}
		r := repair{object: o, cause: o.news, seen: now, before: o.placed}
		o.news, o.busy = nil, true
		k.running++
		workers.Go(func() { k.done <- k.repair(ctx, r) })
		return true
	})
	return wait
}

// repair puts an object back. It runs beside the loop, and reads nothing that
// the loop changes.
func (k *keeper) repair(ctx context.Context, r repair) repair {
	a := api{client: k.env.client, lease: k.lease, unsure: &k.unsure}
	live := r.cause.obj
	if r.cause.gone {
		live = nil // of what is gone, or has lost its label, nothing counts
	}
	if r.object.parent {
		r.result, r.err = k.repairParent(ctx, a, live)
	} else {
		c := change{wanted: r.object.want, resource: r.object.where, live: live}
		one := applier{api: a, change: c, content: k.content}
		r.result, r.err = one.run(ctx)
	}
	return r
}

func (k *keeper) repairParent(ctx context.Context, a api, live *kube.Object) (result, error) {
	var p applyset.Parent
	verb := verbCreate
	if live != nil {
		p, verb = applyset.DecodeParent(live), verbApply
	}
	want, err := p.With(k.env.set, k.record, k.contents)
	if err != nil {
		return result{}, err
	}
	written, err := a.writeParent(ctx, p, k.env.set, want)
	return result{verb: verb, live: written.Object}, err
}

// took notes what a repair came to.
func (k *keeper) took(r repair) {
	o := r.object
	o.busy = false
	switch {
	case r.err != nil || r.result.failure != "":
		if o.news == nil {
			o.news = r.cause // it still is to be done
		}
		if k.end == nil {
			k.end = why(r)
		}
		return
	case !o.parent:
		k.env.memory.note(map[applyset.Key]placed{o.key: placedAs(o.want, r.result.live)})
		k.env.metrics.wrote(r.result.verb)
	}
	o.placed = placedWithFields(r.result.live, o.want.form)
	if r.result.verb != verbNone {
		k.repaired(r)
	}
	k.consider(o)
}

// why says why a full pass is due after a repair that did not succeed.
func why(r repair) error {
	out := &DriftError{Reason: "put back " + r.object.key.String(), Err: r.err}
	if r.err == nil {
		out.Err = errors.New(r.result.failure)
	}
	return out
}

// repaired counts a repair, and finds fights.
func (k *keeper) repaired(r repair) {
	var seen *kube.Object
	if !r.cause.gone {
		seen = r.cause.obj
	}
	by := ownership.ChangeSince(r.before.own, seen)
	q := k.env.quarrels.of(r.object.key)
	begun := q.repaired(time.Now(), by)
	attrs := []any{
		"object", r.object.key.String(), "verb", string(r.result.verb), "fieldManager", by.Manager, "fields", by.Fields,
	}
	switch {
	case begun:
		k.env.log.Warn("fight with another writer, repairs are slowed down", append(attrs, "repairs", q.count)...)
	case q.pause == 0:
		k.env.log.Info("object put back", attrs...)
	default:
		k.env.log.Debug("object put back", attrs...)
	}
	k.env.metrics.repaired(r.result.verb, time.Since(r.seen))
	k.env.drift.Repairs++
	k.env.drift.LastRepair = time.Now()
	k.show()
}

// show publishes how the objects are kept.
func (k *keeper) show() {
	d := &k.env.drift
	d.Fights, d.Watching, d.Problem = k.env.quarrels.fights(), len(k.watched) > 0, ""
	for _, w := range k.watched {
		d.Watching = d.Watching && k.open[w]
		if d.Problem == "" {
			d.Problem = k.problems[w]
		}
	}
	latest := k.env.report.Get()
	latest.Drift = *d
	k.env.metrics.kept(*d)
	k.env.report.Set(latest)
}

func sameFight(a, b report.Fight) bool { return a.Object == b.Object && a.Repairs == b.Repairs }
