package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/drift"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
	"github.com/lockstep-dev/lockstep/report"
)

// mark is the mark of the parent, or the replacement of a lost one.
func (p *pass) mark() applyset.MarkData {
	return p.parent.Effective(p.stamps(), p.work)
}

// stamps are those that replace a lost mark.
func (p *pass) stamps() []applyset.Stamp { return p.observed.StampsFor(p.parent, p.wanted) }

// foundParent takes a parent that was read or written.
func (p *pass) foundParent(found applyset.Parent) {
	garbage := ""
	if p.parent, garbage = found.For(p.work); garbage != "" {
		p.env.log.Warn("the mark is damaged, writing it again", "problem", garbage)
	}
}

// finished is the mark that this pass leaves when it is done.
func (p *pass) finished() applyset.MarkData {
	return applyset.Finished(p.work.Content, p.work.LeaderEpoch)
}

// checkMark returns an error where this work cannot rest on the mark as it is
// now.
func (p *pass) checkMark() error {
	switch {
	case p.parent.ForeignTo(p.work.Store):
		return errForeignStore
	case p.work.First && p.parent.Known && p.parent.Mark.FirstDone:
		return fmt.Errorf("%w: another leader finished the first reconciliation", errUnfounded)
	case p.work.OtherBundle(p.parent.Bundle):
		return fmt.Errorf("%w: another leader began it for the bundle %s", errUnfounded, p.parent.Bundle)
	case p.parent.Known && p.work.EpochTooHigh(p.parent.Mark.HighestEpoch()):
		return fmt.Errorf("%w: %s", errUnfounded, protocol.GarbageEpoch(p.work.Content.Epoch, p.parent.Mark.HighestEpoch()))
	case p.mark().EpochTaken(p.work.Content):
		return &exec.NewerContentError{Epoch: p.work.Content.Epoch + 1}
	}
	return nil
}

// begin makes the parent name this content, this leader, all kinds and all objects
// before the first write of an object (docs/protocol-objects.md#mark,
// docs/protocol-objects.md#inventory). It never removes an entry.
func (p *pass) begin(ctx context.Context) error {
	if p.begun {
		return nil
	}
	for range exec.MaxAttempts {
		if err := p.checkMark(); err != nil {
			return err
		}
		mark := p.mark().Begun(p.work)
		want, err := p.parent.With(p.env.set, applyset.ParentData{
			Mark: mark, Contents: p.contents(p.parent.Contents),
			Inventory: p.parent.Inventory.With(plan.InventoryOf(p.wanted)), Store: p.work.Store,
		})
		if err != nil {
			return err
		}
		if p.parent.Matches(want, mark) && p.parent.Mark.LeaderEpoch == mark.LeaderEpoch {
			p.begun = true
			return nil
		}
		written, err := p.WriteParent(ctx, p.parent, want)
		p.foundParent(written)
		if err != nil && !errors.Is(err, exec.ErrMarkChanged) {
			return err
		}
	}
	return fmt.Errorf("write the mark: %w", exec.ErrMarkChanged)
}

// finish makes the mark name this content alone, if all required objects are in
// place.
func (p *pass) finish(ctx context.Context) error {
	if p.missesRequired() || p.missesRemoval() {
		return nil
	}
	data := p.finishedData()
	want, err := p.parent.With(p.env.set, data)
	if err != nil {
		return err
	}
	if !p.parent.Matches(want, data.Mark) {
		written, err := p.WriteParent(ctx, p.parent, want)
		p.foundParent(written)
		if err != nil {
			return err
		}
	}
	p.done = true
	return nil
}

// finishedData is the data of the parent when the pass is done.
func (p *pass) finishedData() applyset.ParentData {
	return applyset.ParentData{Mark: p.finished(), Contents: p.contents(applyset.Contents{}), Inventory: p.existing(), Store: p.work.Store}
}

// existing returns the inventory without the objects that do not exist any more. Objects that
// could not be listed may exist.
func (p *pass) existing() applyset.Inventory {
	wanted := plan.InventoryOf(p.wanted)
	if !p.observed.Complete() {
		return p.parent.Inventory.With(wanted)
	}
	var found []applyset.ID
	for _, state := range p.observed {
		for k := range state.Live {
			if p.parent.Inventory.Has(k) {
				found = append(found, applyset.IDOf(k))
			}
		}
	}
	return wanted.With(found)
}

// contents returns the kinds and namespaces of the set: of the bundle, of the live objects, and
// more.
func (p *pass) contents(more applyset.Contents) applyset.Contents {
	out := applyset.Contents{Kinds: slices.Clone(more.Kinds), Namespaces: slices.Clone(more.Namespaces)}
	add := func(k applyset.Key) {
		out.Kinds = append(out.Kinds, k.GroupKind)
		if k.Namespace != "" && k.Namespace != p.env.set.Namespace {
			out.Namespaces = append(out.Namespaces, k.Namespace)
		}
	}
	for _, w := range p.wanted {
		add(w.Key)
	}
	for gvk, state := range p.observed {
		if state.Err != nil || state.Strangers.Total > 0 { // objects of it may exist
			out.Kinds = append(out.Kinds, gvk.GroupKind())
		}
		for k := range state.Live {
			add(k)
		}
	}
	return out
}

// missesRequired reports whether an object failed that keeps the status from
// becoming DONE.
func (p *pass) missesRequired() bool {
	return slices.ContainsFunc(p.wanted, func(w plan.Wanted) bool {
		_, bad := p.todo.Problems[w.Key]
		return bad && w.Required
	})
}

// required are the objects whose failure keeps the status from becoming DONE.
func (p *pass) required() map[applyset.Key]bool {
	out := make(map[applyset.Key]bool, len(p.wanted))
	for _, w := range p.wanted {
		out[w.Key] = w.Required
	}
	return out
}

// missesRemoval reports whether a removal that the bundle wants immediately was
// not made. A node whose M relies on it must not see DONE
// (docs/protocol-objects.md#removals).
func (p *pass) missesRemoval() bool {
	return p.bundle.PruneImmediately && (len(p.stuck) > 0 || p.prune.Brake != "")
}

// outcome is the result of the pass for the leader. Removals that failed, or that a brake
// keeps, are not owed: asking for them again at once would not help.
func (p *pass) outcome() protocol.Outcome {
	out := protocol.Outcome{
		Complete: p.done, Unfounded: p.unfounded != nil, Unsure: p.Unknown.Time(),
		HighestEpoch: max(p.highest, p.parent.Mark.HighestEpoch()),
	}
	if p.parent.ForeignTo(p.work.Store) {
		out.ForeignStore = p.parent.Store
	}
	if !p.work.Removals || p.missesRequired() {
		out.Owed = len(p.prune.Removals)
	}
	return out
}

// reportAfter returns the report of this pass. It keeps values that the pass does not know from
// the report before it.
func (p *pass) reportAfter(last report.Reconcile) report.Reconcile {
	out := report.Reconcile{Drift: last.Drift, LastSuccess: last.LastSuccess, PruneHeld: p.prune.Brake}
	n := &out.Objects
	n.Desired, n.Failed, n.Owed = len(p.wanted), len(p.todo.Problems), len(p.prune.Removals)+len(p.stuck)
	for _, w := range p.wanted {
		if w.Fence {
			n.Fence++
		}
	}
	for _, k := range applyset.SortedKeys(p.written) {
		switch {
		case p.written[k] != exec.VerbDelete:
			n.Applied++
			continue
		case n.Pruned < report.MaxNamed:
			out.PrunedObjects = append(out.PrunedObjects, k.String())
		}
		n.Pruned++
	}
	now, required := report.At(time.Now()), p.required()
	n.Unchanged = max(0, len(p.todo.Placed)+len(p.todo.Contested)-n.Applied) // contested objects are left as they are
	for _, failures := range []map[applyset.Key]string{p.todo.Problems, p.stuck} {
		for _, k := range applyset.SortedKeys(failures) {
			out.AddFailure(report.Failure{
				Object: k.String(), Message: failures[k], Source: p.sourceOf(k), Since: last.FailingSince(k.String(), now),
				Required: required[k],
			})
		}
	}
	out.Drift.Fights = p.env.fights.Report()
	out.Strangers, out.TotalStrangers = last.Strangers, last.TotalStrangers
	if p.observed != nil && !p.partial {
		strangers := p.observed.Strangers().With(p.prune.Owned)
		out.Strangers, out.TotalStrangers = reportStrangers(strangers), strangers.Total
	}
	out.LastError = p.whyIncomplete()
	return out
}

// sourceOf returns where the manifest of an object is; empty: it is not of the
// bundle.
func (p *pass) sourceOf(k applyset.Key) string {
	for i, manifest := range p.bundle.Objects {
		if applyset.KeyOf(manifest.GroupVersionKind().GroupKind(), manifest) == k {
			return p.bundle.Source(i)
		}
	}
	return ""
}

func reportStrangers(strangers applyset.Strangers) []report.Stranger {
	var out []report.Stranger
	for _, s := range strangers.First {
		out = append(out, report.Stranger{Object: s.Key.String(), Manager: s.Manager, Command: s.Command()})
	}
	return out
}

// whyIncomplete is a sentence; empty where the pass was complete.
func (p *pass) whyIncomplete() string {
	switch {
	case p.done:
		return ""
	case p.parent.ForeignTo(p.work.Store):
		return errForeignStore.Error() + ": " + p.parent.Store
	case p.unfounded != nil:
		return p.unfounded.Error() + "; the leader decides again"
	case p.highest > p.work.Content.Epoch:
		return fmt.Sprintf("objects have content epoch %d, which is above this leader's %d; it decides again", p.highest, p.work.Content.Epoch)
	case p.missesRequired():
		if n := len(p.todo.Problems); n != 1 {
			return fmt.Sprintf("%d objects failed", n)
		}
		return "1 object failed"
	case p.missesRemoval():
		return "objects that the bundle removes immediately still exist: " + cmp.Or(p.prune.Brake, "none")
	case !p.settled:
		return "another writer changes objects back while they are written"
	}
	return "the pass did not end"
}

// left returns the baseline that a finished pass leaves for Keep. That takes a while with many
// objects, so Reconcile does not do it.
func (p *pass) left() *drift.Baseline {
	s := p.env.set
	out := &drift.Baseline{
		Set: s, Content: p.work.Content, Parent: p.finishedData(),
		Objects: map[applyset.Key]*drift.Kept{}, Unplaced: map[applyset.Key]bool{}, Others: map[types.UID]bool{},
	}
	out.Members = plan.MembersOf(p.wanted, out.Parent.Inventory)
	for _, w := range p.wanted {
		live, placed := p.observed[w.GVK].Live[w.Key], p.todo.Placed[w.Key]
		switch {
		case p.todo.Contested[w.Key]:
			out.Objects[w.Key] = p.contestedObject(w, live)
		case live == nil || placed.Version != live.GetResourceVersion():
			out.Unplaced[w.Key] = true
		default:
			out.Objects[w.Key] = drift.NewKept(w, p.observed[w.GVK].Resource, live)
		}
	}
	for _, gvk := range plan.KindsOf(p.wanted) {
		state := p.observed[gvk]
		for k, live := range state.Live {
			if out.Objects[k] == nil {
				out.Others[live.GetUID()] = true
			}
		}
		if state.Served {
			out.Watches = append(out.Watches, &drift.Watch{Resource: state.Resource, Version: state.Version, Problem: state.Unwatchable()})
		}
	}
	out.Objects[s.ParentKey()] = drift.NewParent(s, p.parent.Object)
	// The last write of the parent may be long ago, so there is no version to resume from.
	out.Watches = append(out.Watches, &drift.Watch{Resource: applyset.ParentResource(), Parent: true})
	return out
}

// contestedObject is an object in a fight: the pass left its repair to Keep.
func (p *pass) contestedObject(w plan.Wanted, live *kube.Object) *drift.Kept {
	state := p.observed[w.GVK]
	e := &drift.Event{Key: w.Key, Deleted: true, Version: state.Version}
	if live != nil {
		e = drift.NewEvent(w.Key, live)
	}
	return &drift.Kept{Key: w.Key, Wanted: w, Resource: state.Resource, Event: e}
}
