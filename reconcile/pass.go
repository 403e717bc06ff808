package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// maxRounds bounds how often a pass observes and writes. Two rounds are usual:
// the write, and the last list. CRDs take one more, removals another. A pass that
// still finds something to do after that fights with another writer.
const maxRounds = 6

// awaitDefinitions is how long a pass waits for the kinds that its CRDs define.
// With several API servers, a CRD is established only after five seconds.
const awaitDefinitions = 15 * time.Second

// pass is one run of Reconcile.
type pass struct {
	exec.API
	env    *env
	work   protocol.Work
	bundle *bundle.Bundle
	wanted []plan.Wanted

	parent   applyset.Parent
	observed plan.Observation
	partial  bool // observed contains only a few objects, and nothing of others
	todo     plan.Plan
	prune    plan.Prune
	// aggregated says why objects of a group version are not written while A is
	// raised; nil: not asked yet.
	aggregated map[schema.GroupVersion]string
	begun      bool  // the parent names this content and leader, and all kinds
	awaited    bool  // the pass waited for kinds, which it does once
	highest    int64 // content epoch that was read
	settled    bool  // a list found all objects in place
	unfounded  error // the mark is not the one on which the work was decided; nil: it is
	done       bool  // all objects are in place, and the mark names this content alone

	mu      sync.Mutex // mu guards the fields that the workers of a wave write
	failed  map[applyset.Key]string
	stuck   map[applyset.Key]string // removals that failed
	written map[applyset.Key]exec.Verb
}

// run makes rounds until one finds nothing to do. It reads the mark first: a user
// who may not read the mark must not write objects.
func (p *pass) run(ctx context.Context) (err error) {
	parent, err := p.ReadParent(ctx)
	if err != nil {
		return err
	}
	p.foundParent(parent)
	for rounds := 0; rounds < maxRounds; {
		began := time.Now()
		if err := p.observe(ctx); err != nil {
			return err
		}
		if p.highest > p.work.Content.Epoch {
			return nil // the leader must choose a higher content epoch
		}
		more, err := p.round(ctx, began)
		newer, outbid := errors.AsType[*exec.NewerContentError](err)
		switch {
		case outbid:
			p.highest = max(p.highest, newer.Epoch)
			return nil
		case errors.Is(err, errUnfounded):
			p.unfounded = err
			return nil
		case errors.Is(err, errNotQuiet):
			continue
		case errors.Is(err, errForeignStore):
			return nil
		case err != nil:
			return err
		case !more:
			return p.finish(ctx)
		}
		rounds++
	}
	return nil
}

// errNotQuiet reports that requests of other leaders may have landed after the
// list.
var errNotQuiet = errors.New("requests of other leaders may still land")

// errForeignStore reports that the set belongs to another store: nothing is written.
var errForeignStore = errors.New("the objects belong to another store")

// errUnfounded reports that the work does not rest on the mark as it is.
var errUnfounded = errors.New("the mark is not the one on which this pass was decided")

// round makes a round, if the mark is the one on which the work was decided. It
// returns errNotQuiet where the list that began then does not count as final. A
// list is final only if no earlier request can still take effect after it. That
// matters in two cases: before DONE, and when stamps replace a lost mark.
func (p *pass) round(ctx context.Context, began time.Time) (more bool, err error) {
	if err := p.checkMark(); err != nil {
		return false, err
	}
	if !p.begun && p.parent.NeedsStamps(p.stamps(), p.work) {
		if err := p.awaitFinal(ctx, began); err != nil {
			return false, err
		}
	}
	more, err = p.step(ctx)
	if err == nil && !more && p.work.Wait {
		err = p.awaitFinal(ctx, began)
	}
	return more, err
}

// awaitFinal returns errNotQuiet, after a while, where a request may have landed
// after the list that began then.
func (p *pass) awaitFinal(ctx context.Context, began time.Time) error {
	if again, err := p.AwaitQuiet(ctx, began); err != nil || !again {
		return err
	}
	return errNotQuiet
}

// step takes the next step. It reports whether it did something: then the objects must be
// observed again. Definitions are written alone, since objects of the kinds that they define
// must be listed before they can be compared. Removals come last, when everything else is in
// place.
func (p *pass) step(ctx context.Context) (more bool, err error) {
	if len(p.todo.Changes[plan.WaveDefinitions]) > 0 {
		waves := p.waves()
		return true, p.writeWaves(ctx, waves[:1+slices.Index(waves, plan.WaveDefinitions)]...)
	}
	if pending := p.observed.Pending(p.wanted, p.failed); len(pending) > 0 && !p.awaited {
		p.awaited = true
		served, err := p.awaitKinds(ctx, pending)
		if served || err != nil {
			return true, err
		}
	}
	if !p.todo.Empty() {
		return true, p.writeWaves(ctx, p.waves()...)
	}
	p.settled = true
	if p.mayRemove() {
		return true, p.remove(ctx)
	}
	return false, nil
}

// waves returns the order in which this pass writes.
func (p *pass) waves() []plan.Wave {
	if p.work.First {
		return plan.FirstWaves()
	}
	return plan.Waves()
}

// writeWaves writes one wave after the other.
func (p *pass) writeWaves(ctx context.Context, waves ...plan.Wave) error {
	for _, wave := range waves {
		if err := p.write(ctx, p.todo.Changes[wave]); err != nil {
			return err
		}
	}
	return nil
}

// write writes the changes of a wave.
func (p *pass) write(ctx context.Context, changes []plan.Change) error {
	if len(changes) == 0 {
		return nil
	}
	if err := p.begin(ctx); err != nil {
		return err
	}
	return exec.Each(ctx, p.env.cfg.Concurrency, len(changes), func(ctx context.Context, i int) error {
		result, err := p.Apply(ctx, changes[i], p.work.Content)
		if err != nil {
			return fmt.Errorf("apply %s: %w", changes[i].Wanted.Key, err)
		}
		p.note(changes[i].Wanted, result)
		return nil
	})
}

// note notes the result for one object.
func (p *pass) note(w plan.Wanted, result exec.Result) {
	p.env.metrics.wrote(result.Verb)
	if result.Failure == "" {
		p.env.memory.note(map[applyset.Key]plan.Placed{w.Key: plan.PlacedAs(w, result.Live)})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if result.Forged.Epoch != 0 {
		p.noteForged(w.Key, result.Forged)
	}
	if result.Failure != "" {
		p.failed[w.Key] = result.Failure
		return
	}
	if result.Verb != exec.VerbNone {
		p.written[w.Key] = result.Verb
	}
}

// noteForged counts the repair of a stamp that no leader wrote like the repair of any other
// field, so that it is named, and slowed down if it goes on. The caller has p.mu.
func (p *pass) noteForged(k applyset.Key, f exec.Forged) {
	change := ownership.Change{Manager: f.Manager, Fields: []string{".metadata.annotations." + bundle.AnnotationContentEpoch}}
	begun := p.env.fights.Repaired(k, time.Now(), change)
	if begun || !p.env.fights.Contested(k) {
		p.env.log.Warn("forged content epoch removed", "object", k.String(), "contentEpoch", f.Epoch, "fieldManager", f.Manager)
	}
}

// forgetKinds drops failed objects' kinds from the catalog, so the next pass
// discovers them again: another CRD, of another scope, may define them by now.
func (p *pass) forgetKinds() {
	for _, w := range p.wanted {
		if _, failed := p.todo.Problems[w.Key]; failed {
			p.env.catalog.Forget(w.GVK)
		}
	}
}

// mayRemove reports whether the objects that the bundle dropped are removed now.
func (p *pass) mayRemove() bool {
	return p.work.Removals && len(p.prune.Removals) > 0 && p.prune.Brake == "" && !p.missesRequired()
}

// remove deletes the objects that the bundle dropped, in reverse order of the
// waves.
func (p *pass) remove(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	p.settled = false
	for _, wave := range slices.Backward(plan.Waves()) {
		removals := slices.DeleteFunc(slices.Clone(p.prune.Removals), func(r plan.Removal) bool { return !r.InWave(wave) })
		if err := p.removeAll(ctx, removals); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) removeAll(ctx context.Context, removals []plan.Removal) error {
	return exec.Each(ctx, p.env.cfg.Concurrency, len(removals), func(ctx context.Context, i int) error {
		k := removals[i].Key
		failure, err := p.Remove(ctx, removals[i], p.work.Content)
		if err != nil {
			return fmt.Errorf("remove %s: %w", k, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if failure != "" {
			p.stuck[k] = "remove: " + failure
			return nil
		}
		p.written[k] = exec.VerbDelete
		p.env.metrics.wrote(exec.VerbDelete)
		return nil
	})
}

// awaitKinds asks until all of the kinds are served, which they are once their
// CRDs are established.
func (p *pass) awaitKinds(ctx context.Context, pending []schema.GroupVersionKind) (served bool, err error) {
	g := p.gatherer()
	ctx, cancel := context.WithTimeoutCause(ctx, awaitDefinitions, errNotServed)
	defer cancel()
	pauses := backoff.Backoff{First: 50 * time.Millisecond, Max: time.Second}
	for {
		kinds, err := g.Kinds(ctx, pending, nil)
		if errors.Is(context.Cause(ctx), errNotServed) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if !slices.ContainsFunc(pending, func(gvk schema.GroupVersionKind) bool { return !kinds[gvk].Served }) {
			return true, nil
		}
		if err := exec.Sleep(ctx, pauses.Next()); err != nil && !errors.Is(err, errNotServed) {
			return false, err
		}
	}
}

// errNotServed ends the wait for a kind.
var errNotServed = errors.New("the kinds of the bundle's CRDs are not served yet")
