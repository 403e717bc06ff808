package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// maxRounds bounds how often a pass gathers and writes. Two are usual (write,
// and the last list), CRDs take one more, removals another. Who still finds
// something to do after that fights with another writer.
const maxRounds = 6

// awaitDefinitions is how long a pass waits for the kinds that its CRDs bring.
// With several apiservers a CRD is established after five seconds only.
const awaitDefinitions = 15 * time.Second

// pass is one run of Reconcile.
type pass struct {
	api
	env    *env
	work   protocol.Work
	bundle *bundle.Bundle
	wanted []wanted

	parent    applyset.Parent
	found     found
	plan      plan
	prune     pruneSet
	begun     bool  // the parent names this content and leader, and all kinds
	awaited   bool  // for kinds, once in a pass
	highest   int64 // content epoch seen
	settled   bool  // a list found all as it should be
	unfounded bool  // the mark is not the one that the work rests on
	done      bool  // and the mark says so

	mu      sync.Mutex // mu guards what the workers of a wave write
	failed  map[applyset.Key]string
	stuck   map[applyset.Key]string // removals that failed
	written map[applyset.Key]verb
}

// run makes rounds until one finds nothing to do. The first thing is the mark:
// whoever may not read it must not write objects.
func (p *pass) run(ctx context.Context) (err error) {
	if p.parent, err = p.readParent(ctx, p.env.set); err != nil {
		return err
	}
	for rounds := 0; rounds < maxRounds; {
		looked := time.Now()
		if err := p.look(ctx); err != nil {
			return err
		}
		if p.highest > p.work.Content.Epoch {
			return nil // the leader has to choose a higher content epoch
		}
		more, err := p.turn(ctx, looked)
		newer, outbid := errors.AsType[*newerContentError](err)
		switch {
		case outbid:
			p.highest = max(p.highest, newer.epoch)
			return nil
		case errors.Is(err, errUnfounded):
			p.unfounded = true
			return nil
		case errors.Is(err, errNotQuiet):
			continue
		case err != nil:
			return err
		case !more:
			return p.finish(ctx)
		}
		rounds++
	}
	return nil
}

// errNotQuiet says that requests of others may have landed since what was read
// was read.
var errNotQuiet = errors.New("requests of others may still land")

// turn makes a round, if the mark is what the work rests on. What was read at
// looked is the last word only if nothing can land after it any more: where it
// finds all in place and a change ends with it, and where it takes the place of
// the mark.
func (p *pass) turn(ctx context.Context, looked time.Time) (more bool, err error) {
	if err := p.founded(); err != nil {
		return false, err
	}
	if !p.begun && needsStamps(p.parent, p.found.stampsFor(p.parent), p.work) {
		if err := p.rest(ctx, looked); err != nil {
			return false, err
		}
	}
	more, err = p.round(ctx)
	if err == nil && !more && p.work.Wait {
		err = p.rest(ctx, looked)
	}
	return more, err
}

// rest returns errNotQuiet, after a while, where something may have landed since
// looked.
func (p *pass) rest(ctx context.Context, looked time.Time) error {
	if again, err := p.awaitQuiet(ctx, looked); err != nil || !again {
		return err
	}
	return errNotQuiet
}

// record is the mark as it stands, or what the objects tell of it.
func (p *pass) record() applyset.MarkData {
	if p.parent.Known {
		return p.parent.Mark
	}
	return applyset.Rebuild(stampsOf(p.found.live), p.work)
}

// round does the next thing, and reports whether it did something: then what is
// there has to be looked at again. Definitions come alone, since what they bring
// has to be listed before it can be compared; removals come last, when all else
// is in place.
func (p *pass) round(ctx context.Context) (more bool, err error) {
	if len(p.plan.changes[WaveDefinitions]) > 0 {
		return true, p.writeWaves(ctx, WaveFence, WaveDefinitions)
	}
	if pending := p.pending(); len(pending) > 0 && !p.awaited {
		p.awaited = true
		served, err := p.await(ctx, pending)
		if served || err != nil {
			return true, err
		}
	}
	if !p.plan.empty() {
		return true, p.writeWaves(ctx, waves()...)
	}
	p.settled = true
	if p.mayRemove() {
		return true, p.remove(ctx)
	}
	return false, nil
}

// writeWaves writes one wave after the other.
func (p *pass) writeWaves(ctx context.Context, waves ...Wave) error {
	for _, wave := range waves {
		if err := p.write(ctx, p.plan.changes[wave]); err != nil {
			return err
		}
	}
	return nil
}

// write writes the changes of a wave.
func (p *pass) write(ctx context.Context, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	if err := p.begin(ctx); err != nil {
		return err
	}
	return each(ctx, p.env.concurrency, len(changes), func(ctx context.Context, i int) error {
		a := applier{api: p.api, change: changes[i], content: p.work.Content}
		res, err := a.run(ctx)
		if err != nil {
			return fmt.Errorf("apply %s: %w", changes[i].wanted.key, err)
		}
		p.took(changes[i].wanted, res)
		return nil
	})
}

// took notes what became of an object.
func (p *pass) took(w wanted, res result) {
	if res.failure == "" {
		p.env.memory.note(map[applyset.Key]placed{w.key: placedAs(w, res.live)})
		p.env.metrics.wrote(res.verb)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if res.failure != "" {
		p.failed[w.key] = res.failure
		return
	}
	if res.verb != verbNone {
		p.written[w.key] = res.verb
	}
}

// forgetKinds has the kinds looked up anew of which an object failed: a CRD may
// have been replaced by one of another scope.
func (p *pass) forgetKinds() {
	for _, w := range p.wanted {
		if _, failed := p.plan.problems[w.key]; failed {
			p.env.catalog.forget(w.gvk)
		}
	}
}

// mayRemove reports whether what the bundle dropped goes now.
func (p *pass) mayRemove() bool {
	return p.work.Removals && len(p.prune.removals) > 0 && p.prune.held == "" && !p.lacksRequired()
}

// remove deletes what the bundle dropped, in reverse order of the waves.
func (p *pass) remove(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	p.settled = false
	for _, wave := range slices.Backward(waves()) {
		var removals []removal
		for _, r := range p.prune.removals {
			if waveOf(r.key.GroupKind) == wave {
				removals = append(removals, r)
			}
		}
		if err := p.removeAll(ctx, removals); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) removeAll(ctx context.Context, removals []removal) error {
	return each(ctx, p.env.concurrency, len(removals), func(ctx context.Context, i int) error {
		r := remover{api: p.api, removal: removals[i], content: p.work.Content}
		failure, err := r.run(ctx)
		if err != nil {
			return fmt.Errorf("remove %s: %w", r.key, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if failure != "" {
			p.stuck[r.key] = "remove: " + failure
			return nil
		}
		p.written[r.key] = verbDelete
		p.env.metrics.wrote(verbDelete)
		return nil
	})
}

// pending are the kinds that the API server does not serve yet, but that a CRD
// of the bundle brings.
func (p *pass) pending() []schema.GroupVersionKind {
	brought := map[schema.GroupKind]bool{}
	for _, w := range p.wanted {
		if _, failed := p.failed[w.key]; isCRD(w.key.GroupKind) && !failed {
			group, _, _ := unstructured.NestedString(w.obj.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(w.obj.Object, "spec", "names", "kind")
			brought[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	var out []schema.GroupVersionKind
	for _, gvk := range kindsOf(p.wanted) {
		if state := p.found.kinds[gvk]; !state.served && state.err == nil && brought[gvk.GroupKind()] {
			out = append(out, gvk)
		}
	}
	return out
}

// await asks until all of the kinds are served, which they are once their CRDs
// are established.
func (p *pass) await(ctx context.Context, pending []schema.GroupVersionKind) (served bool, err error) {
	g := p.env.gatherer(p.api)
	ctx, cancel := context.WithTimeoutCause(ctx, awaitDefinitions, errNotServed)
	defer cancel()
	for d := firstPause / 2; ; d = min(2*d, time.Second) {
		kinds, err := g.kinds(ctx, pending, nil)
		if errors.Is(context.Cause(ctx), errNotServed) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if !slices.ContainsFunc(pending, func(gvk schema.GroupVersionKind) bool { return !kinds[gvk].served }) {
			return true, nil
		}
		if err := sleep(ctx, d); err != nil && !errors.Is(err, errNotServed) {
			return false, err
		}
	}
}

// errNotServed ends the wait for a kind.
var errNotServed = errors.New("the kinds of the bundle's CRDs are not served yet")

// kindsOf returns the kinds of objects, each once.
func kindsOf(objects []wanted) []schema.GroupVersionKind {
	seen := map[schema.GroupVersionKind]bool{}
	var out []schema.GroupVersionKind
	for _, w := range objects {
		if !seen[w.gvk] {
			seen[w.gvk] = true
			out = append(out, w.gvk)
		}
	}
	return out
}
