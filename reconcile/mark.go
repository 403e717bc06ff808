package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
)

// mark is the mark of the parent, or what replaces a lost one.
func (p *pass) mark() applyset.MarkData {
	return p.parent.Effective(p.inventory.StampsFor(p.parent), p.work)
}

// finished is the mark that this pass leaves when it is done.
func (p *pass) finished() applyset.MarkData {
	return applyset.Finished(p.work.Content, p.work.LeaderEpoch)
}

// checkMark returns an error where this work cannot rest on the mark as it is
// now.
func (p *pass) checkMark() error {
	switch {
	case p.work.First && p.parent.Known && p.parent.Mark.FirstDone:
		return errUnfounded
	case p.mark().EpochTaken(p.work.Content):
		return &exec.NewerContentError{Epoch: p.work.Content.Epoch + 1}
	}
	return nil
}

// begin makes the parent name this content, this leader and all kinds before the
// first write of an object (docs/protocol.md#mark). It never removes an entry.
func (p *pass) begin(ctx context.Context) error {
	if p.begun {
		return nil
	}
	for range exec.MaxAttempts {
		if err := p.checkMark(); err != nil {
			return err
		}
		mark := p.mark().Begun(p.work)
		want, err := p.parent.With(p.env.set, mark, p.contents(p.parent.Contents))
		if err != nil {
			return err
		}
		if p.parent.Matches(want, mark) && p.parent.Mark.LeaderEpoch == mark.LeaderEpoch {
			p.begun = true
			return nil
		}
		p.parent, err = p.WriteParent(ctx, p.parent, p.env.set, want)
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
	mark := p.finished()
	want, err := p.parent.With(p.env.set, mark, p.contents(applyset.Contents{}))
	if err != nil {
		return err
	}
	if !p.parent.Matches(want, mark) {
		if p.parent, err = p.WriteParent(ctx, p.parent, p.env.set, want); err != nil {
			return err
		}
	}
	p.done = true
	return nil
}

// contents returns the kinds and namespaces of the set: those of the bundle, of
// the live objects, and more.
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
	for gvk, objects := range p.inventory.Live {
		if p.inventory.Kinds[gvk].Err != nil { // objects of it may exist
			out.Kinds = append(out.Kinds, gvk.GroupKind())
		}
		for k := range objects {
			add(k)
		}
	}
	return out
}
