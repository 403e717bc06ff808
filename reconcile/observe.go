package reconcile

import (
	"context"
	"slices"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// observe reads the live objects, and plans. Where there is something to write, a few reads are
// enough: each write has preconditions, and the pass observes again after it. Only that list
// can find that nothing is left to do.
func (p *pass) observe(ctx context.Context) error {
	if err := p.findAggregated(ctx); err != nil {
		return err
	}
	known := p.env.memory.known()
	readChanged := false
	if p.changesContent() {
		var err error
		if readChanged, err = p.observeChanged(ctx, known); err != nil {
			return err
		}
	}
	if readChanged && !p.todo.Empty() {
		return nil
	}
	d := kube.Metadata // enough to see that a known object did not change
	switch {
	case 2*len(known) < len(p.wanted):
		d = kube.Full
	case p.changesContent() && !readChanged:
		d = kube.Recent
	}
	err := p.list(ctx, d)
	if err == nil && d == kube.Recent && p.todo.Empty() {
		err = p.list(ctx, kube.Metadata)
	}
	return err
}

func (p *pass) gatherer() exec.Gatherer {
	return p.env.gatherer(p.API, plan.MembersOf(p.wanted, p.parent.Inventory))
}

// changesContent reports whether the mark, which lists its kinds, names other
// content, and nothing was written yet.
func (p *pass) changesContent() bool {
	return !p.begun && p.parent.Known && p.parent.Recorded && !p.parent.Mark.SameContent(p.finished())
}

// maxSingleReads is how many objects at most are read one by one. For more, a
// list is cheaper.
const maxSingleReads = 32

// observeChanged reads only the objects whose form changed since they were last
// in place, and assumes that the others are as they were. It reports whether that
// was possible.
func (p *pass) observeChanged(ctx context.Context, known map[applyset.Key]plan.Placed) (bool, error) {
	unread := map[applyset.Key]plan.Placed{}
	var changed []plan.Wanted
	for _, w := range p.wanted {
		if was, placed := known[w.Key]; placed && was.Form == w.Form {
			unread[w.Key] = was
		} else {
			changed = append(changed, w)
		}
	}
	if len(changed) > maxSingleReads {
		return false, nil
	}
	v, complete, err := p.gatherer().Some(ctx, plan.KindsOf(p.wanted), p.parent.Contents.Kinds, changed)
	p.observed, p.partial = v, true
	if err != nil || !complete {
		return false, err
	}
	p.decide(known, unread)
	return true, nil
}

// list lists the metadata of every kind, then lists in full the kinds for which
// metadata is not enough. With kube.Full it lists every kind in full at once.
func (p *pass) list(ctx context.Context, d kube.Depth) (err error) {
	g, known := p.gatherer(), p.env.memory.known()
	from := p.parent
	// Before the first pass the survey searched all kinds, and found no object.
	from.Recorded = from.Recorded || p.work.First && from.Object == nil
	if p.observed, err = g.Search(ctx, from, p.wanted, d); err != nil {
		return err
	}
	p.partial = false
	p.decide(known, nil)
	unread := p.todo.Unread()
	if d == kube.Full || len(unread) == 0 {
		return nil
	}
	if err := g.List(ctx, p.observed, unread, kube.Full); err != nil {
		return err
	}
	p.decide(known, nil)
	return nil
}

// decide plans from the observation. unread are objects that were not read.
func (p *pass) decide(known, unread map[applyset.Key]plan.Placed) {
	p.highest = max(p.highest, p.mark().HighestEpoch())
	in := plan.Input{
		Set: p.env.set, Content: p.work.Content, Wanted: p.wanted, Observed: p.observed,
		Placed: known, Unread: unread, Failed: p.failed, Refused: p.refused(),
	}
	if !p.work.Wait { // this content was DONE before, so Keep may repair it alone
		in.Contested = p.env.fights.Contested
	}
	p.todo = plan.Make(in)
	p.env.memory.note(p.todo.Placed)
	p.prune = plan.MakePrune(plan.PruneInput{
		Wanted: p.wanted, Observed: p.observed, Inventory: p.parent.Inventory, AllowMass: p.env.cfg.AllowMassPrune,
	})
	p.prune.Removals = slices.DeleteFunc(p.prune.Removals, func(r plan.Removal) bool {
		_, stuck := p.stuck[r.Key]
		return stuck
	})
}
