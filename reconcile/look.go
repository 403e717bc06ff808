package reconcile

import (
	"context"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"slices"
)

// look gathers and decides. Where there is something to write, a guess at what is
// there is enough: each write has preconditions, and is followed by a look at
// what is there now. Only that finds that nothing is left to do.
func (p *pass) look(ctx context.Context) error {
	known := p.env.memory.known()
	guessed := false
	if p.changes() {
		var err error
		if guessed, err = p.guess(ctx, known); err != nil {
			return err
		}
	}
	if guessed && !p.plan.empty() {
		return nil
	}
	d := metadata // it shows that what is known is still the same
	switch {
	case 2*len(known) < len(p.wanted):
		d = whole
	case p.changes() && !guessed:
		d = recent
	}
	err := p.lookInto(ctx, d)
	if err == nil && d == recent && p.plan.empty() {
		err = p.lookInto(ctx, metadata)
	}
	return err
}

// changes reports whether the mark, which names its kinds, is that of other
// content, and nothing was written yet.
func (p *pass) changes() bool {
	return !p.begun && p.parent.Known && p.parent.Recorded &&
		!p.parent.Mark.SameContent(applyset.Finished(p.work.Content, p.work.LeaderEpoch))
}

// maxGuess is how many objects at most are read one by one. Where there are more,
// a list is cheaper.
const maxGuess = 32

// guess reads nothing but the objects whose form is another than when they were
// last in place, and takes it that the others are as they were. It reports
// whether that was worth while.
func (p *pass) guess(ctx context.Context, known map[applyset.Key]placed) (bool, error) {
	assumed := map[applyset.Key]placed{}
	var others []wanted
	for _, w := range p.wanted {
		if was, found := known[w.key]; found && was.form == w.form {
			assumed[w.key] = was
		} else {
			others = append(others, w)
		}
	}
	if len(others) > maxGuess {
		return false, nil
	}
	var all bool
	var err error
	if p.found, all, err = p.env.gatherer(p.api).some(ctx, kindsOf(p.wanted), p.parent.Contents.Kinds, others); err != nil || !all {
		return false, err
	}
	p.decide(known, assumed)
	return true, nil
}

// lookInto lists all kinds, and those whole of which metadata does not tell what
// an object needs.
func (p *pass) lookInto(ctx context.Context, d depth) (err error) {
	g, known := p.env.gatherer(p.api), p.env.memory.known()
	from := p.parent
	from.Recorded = from.Recorded || p.work.First && from.Object == nil // the survey has searched, and found nothing
	if p.found, err = g.search(ctx, from, p.wanted, d); err != nil {
		return err
	}
	p.decide(known, nil)
	unread := p.plan.unread()
	if d == whole || len(unread) == 0 {
		return nil
	}
	if err := g.into(ctx, p.found, unread, whole); err != nil {
		return err
	}
	p.decide(known, nil)
	return nil
}

// contested says which objects are left to Keep: those in a fight, where content
// is only kept.
func (p *pass) contested() func(applyset.Key) bool {
	if p.work.Wait {
		return nil
	}
	return p.env.quarrels.contested
}

// decide makes the plans from what was found. What is assumed was not looked for.
func (p *pass) decide(known, assumed map[applyset.Key]placed) {
	p.highest = max(highestEpoch(p.found.live), p.record().HighestEpoch())
	p.plan = makePlan(world{
		set: p.env.set, content: p.work.Content, wanted: p.wanted, kinds: p.found.kinds, live: p.found.live,
		placed: known, assumed: assumed, failed: p.failed,
	}, p.contested())
	p.env.memory.note(p.plan.placed)
	p.prune = makePruneSet(pruneInput{
		wanted: p.wanted, kinds: p.found.kinds, live: p.found.live, allowMass: p.env.allowMassPrune,
	})
	p.prune.removals = slices.DeleteFunc(p.prune.removals, func(r removal) bool {
		_, stuck := p.stuck[r.key]
		return stuck
	})
}
