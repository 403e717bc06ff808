package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/report"
)

// begin makes the parent name this content, this leader and all kinds before
// the first write of an object (DESIGN 6.4). It only ever adds.
func (p *pass) begin(ctx context.Context) error {
	if p.begun {
		return nil
	}
	for range maxAttempts {
		if err := p.founded(); err != nil {
			return err
		}
		r := p.record().Begun(p.work)
		want, err := p.parent.With(p.env.set, r, p.contents(p.parent.Contents))
		if err != nil {
			return err
		}
		if p.parent.Matches(want, r) && p.parent.Mark.LeaderEpoch == r.LeaderEpoch {
			p.begun = true
			return nil
		}
		written, err := p.writeParent(ctx, p.parent, p.env.set, want)
		p.parent = written
		if err != nil && !errors.Is(err, errMarkChanged) {
			return err
		}
	}
	return markError("write the mark", errMarkChanged)
}

// founded returns an error where the mark, as it stands now, is not one that
// this work can rest on.
func (p *pass) founded() error {
	switch {
	case p.work.First && p.parent.Known && p.parent.Mark.FirstDone:
		return errUnfounded
	case p.record().EpochTaken(p.work.Content):
		return &newerContentError{epoch: p.work.Content.Epoch + 1}
	}
	return nil
}

// errUnfounded says that what was to be the first reconciliation is not.
var errUnfounded = errors.New("the first reconciliation was finished by another leader")

// finish makes the mark name this content alone, if all that is required is in
// place.
func (p *pass) finish(ctx context.Context) error {
	if p.lacksRequired() || p.lacksRemoval() {
		return nil
	}
	r := applyset.Finished(p.work.Content, p.work.LeaderEpoch)
	want, err := p.parent.With(p.env.set, r, p.contents(applyset.Contents{}))
	if err != nil {
		return err
	}
	if !p.parent.Matches(want, r) {
		if p.parent, err = p.writeParent(ctx, p.parent, p.env.set, want); err != nil {
			return err
		}
	}
	p.done = true
	return nil
}

// contents lists the kinds and namespaces of the set: of the bundle, of what is
// there, and more.
func (p *pass) contents(more applyset.Contents) applyset.Contents {
	out := applyset.Contents{Kinds: slices.Clone(more.Kinds), Namespaces: slices.Clone(more.Namespaces)}
	add := func(k applyset.Key) {
		out.Kinds = append(out.Kinds, k.GroupKind)
		if k.Namespace != "" && k.Namespace != p.env.set.Namespace {
			out.Namespaces = append(out.Namespaces, k.Namespace)
		}
	}
	for _, w := range p.wanted {
		add(w.key)
	}
	for gvk, objects := range p.found.live {
		if p.found.kinds[gvk].err != nil { // what is there of it is not known
			out.Kinds = append(out.Kinds, gvk.GroupKind())
		}
		for k := range objects {
			add(k)
		}
	}
	return out
}

// lacksRequired reports whether an object failed that holds back DONE.
func (p *pass) lacksRequired() bool {
	return slices.ContainsFunc(p.wanted, func(w wanted) bool {
		_, bad := p.plan.problems[w.key]
		return bad && w.required
	})
}

// lacksRemoval reports whether a removal that the bundle wants at once was not
// made. A node whose M rests on it may not take DONE for it (DESIGN 4.11).
func (p *pass) lacksRemoval() bool {
	return p.bundle.PruneImmediately && (len(p.stuck) > 0 || p.prune.held != "")
}

// outcome is what the leader has to know. Removals that are held back by a brake
// or that failed are not owed: asking for them again at once would not help.
func (p *pass) outcome() protocol.Outcome {
	out := protocol.Outcome{Complete: p.done, Unfounded: p.unfounded, HighestEpoch: max(p.highest, p.parent.Mark.HighestEpoch())}
	if !p.work.Removals || p.lacksRequired() {
		out.Owed = len(p.prune.removals)
	}
	return out
}

// reportAfter returns the report of this pass. What it does not know, it takes
// over from the report before it.
func (p *pass) reportAfter(last report.Report) report.Report {
	out := report.Report{Drift: last.Drift, LastSuccess: last.LastSuccess, PruneHeld: p.prune.held}
	n := &out.Objects
	n.Desired, n.Failed, n.Owed = len(p.wanted), len(p.plan.problems), len(p.prune.removals)+len(p.stuck)
	for _, v := range p.written {
		if v == verbDelete {
			n.Pruned++
		} else {
			n.Applied++
		}
	}
	n.Unchanged = max(0, len(p.plan.placed)+len(p.plan.contested)-n.Applied) // what is contested is left as it is
	for _, failures := range []map[applyset.Key]string{p.plan.problems, p.stuck} {
		for _, k := range applyset.SortedKeys(failures) {
			out.AddFailure(k.String(), failures[k])
		}
	}
	out.LastError = p.whyIncomplete()
	return out
}

// whyIncomplete is a sentence; empty where the pass was complete.
func (p *pass) whyIncomplete() string {
	switch {
	case p.done:
		return ""
	case p.unfounded:
		return errUnfounded.Error() + "; this leader looks at the mark again"
	case p.highest > p.work.Content.Epoch:
		return fmt.Sprintf("objects bear content epoch %d, which is above this leader's %d; it decides again", p.highest, p.work.Content.Epoch)
	case p.lacksRequired():
		if n := len(p.plan.problems); n != 1 {
			return fmt.Sprintf("%d objects failed", n)
		}
		return "1 object failed"
	case p.lacksRemoval():
		return "objects that the bundle removes immediately still exist: " + orNone(p.prune.held)
	case !p.settled:
		return "objects are changed back while they are written: another writer wants them otherwise"
	}
	return "the pass did not end"
}
