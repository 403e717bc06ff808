// Package plan decides which objects must be written and which may be removed. It is pure: an
// observation of the API and the wanted objects go in, a Plan and a Prune come out. It sends no
// request; package exec carries plans out. The rules for removals are part of the protocol:
// docs/protocol-objects.md#removals.
//
// It starts no goroutine.
package plan

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
)

// Placed is the version of an object that is known to be in place: it compared equal to the
// wanted one, or the API server just accepted our apply. While the object stays at this version
// it is as wanted, however much the server normalized it. Its content need not be read.
type Placed struct {
	UID     types.UID
	Version string
	Form    string
	Own     string // the fields that we own, as ownership.Entries prints them; empty: not compared
}

// PlacedAs returns the Placed of live, which is in place as w wants it.
func PlacedAs(w Wanted, live *kube.Object) Placed {
	return Placed{UID: live.GetUID(), Version: live.GetResourceVersion(), Form: w.Form}
}

// Input is the input of Make.
type Input struct {
	Set      applyset.Set
	Content  protocol.Content
	Wanted   []Wanted
	Observed Observation
	Placed   map[applyset.Key]Placed // from earlier passes
	Unread   map[applyset.Key]Placed // objects that were not read, since they were in place as they are wanted
	Failed   map[applyset.Key]string // objects that failed in this pass: they are not tried twice
	// Refused are group versions whose objects must not get another form, and why.
	// Creations count; repairs do not.
	Refused map[schema.GroupVersion]string
	// Contested reports whether an object is in a fight, so that Keep repairs it
	// instead of a pass; nil: none is.
	Contested func(applyset.Key) bool
}

// Change is one object that must be written.
type Change struct {
	Wanted   Wanted
	Resource kube.Resource
	Live     *kube.Object   // nil: it is created
	Stamp    applyset.Stamp // to be written
}

// Plan lists the writes of a pass.
type Plan struct {
	Changes  map[Wave][]Change       // none is empty
	Problems map[applyset.Key]string // objects that cannot be applied, and why
	Placed   map[applyset.Key]Placed
	// Contested are objects in a fight that only need a repair. They are left to
	// Keep, which pauses between repairs.
	Contested map[applyset.Key]bool
}

// Make decides which write each wanted object needs.
func Make(in Input) Plan {
	out := Plan{
		Changes: map[Wave][]Change{}, Problems: map[applyset.Key]string{},
		Placed: make(map[applyset.Key]Placed, len(in.Wanted)), Contested: map[applyset.Key]bool{},
	}
	for _, want := range in.Wanted {
		if failure, failed := in.Failed[want.Key]; failed {
			out.Problems[want.Key] = failure
			continue
		}
		if was, unread := in.Unread[want.Key]; unread {
			out.Placed[want.Key] = was
			continue
		}
		r, problem := in.resource(want)
		if problem != "" {
			out.Problems[want.Key] = problem
			continue
		}
		live := in.Observed[want.GVK].Live[want.Key]
		stamp, needed := Decide(want, live, in.Content, in.Placed[want.Key])
		if !needed {
			out.Placed[want.Key] = PlacedAs(want, live)
			continue
		}
		if why := in.Refused[want.GVK.GroupVersion()]; why != "" && !want.hasForm(live) {
			out.Problems[want.Key] = why
			continue
		}
		c := Change{Wanted: want, Resource: r, Live: live, Stamp: stamp}
		if in.Contested != nil && in.Contested(want.Key) && c.isRepair() {
			out.Contested[want.Key] = true
			continue
		}
		out.Changes[want.Wave] = append(out.Changes[want.Wave], c)
	}
	return out
}

// resource returns the resource of want, or why it cannot be applied.
func (in Input) resource(want Wanted) (kube.Resource, string) {
	switch {
	case want.Key == in.Set.ParentKey():
		return kube.Resource{}, "is the parent of the set, which Lockstep itself writes; give it another name"
	case in.Set.IsFence(want.Key) && !want.Fence:
		return kube.Resource{}, "is the fence of the set, which Lockstep itself writes; give it another name"
	}
	return in.Observed.resource(want)
}

// Decide reports whether want must be written over live, and with which stamp. placed is the
// last known version of the object; the zero Placed: none.
func Decide(want Wanted, live *kube.Object, c protocol.Content, placed Placed) (applyset.Stamp, bool) {
	s, hasForm := want.stampIn(live)
	if !hasForm {
		return applyset.StampOf(c), true
	}
	if s.Epoch > c.Epoch { // forged, or of a newer leader: the apply finds out
		return applyset.StampOf(c), true
	}
	if placed == PlacedAs(want, live) || ownership.InPlace(want.Object, live) {
		return s, false
	}
	// Another writer changed the object, or the server normalized it. The form is
	// the same, so the content that brought it is the same, too. If the server
	// only normalized it, an apply with the same stamp changes nothing.
	return s, true
}

// Empty reports whether there is nothing to write. Objects with problems do not count.
func (p Plan) Empty() bool { return len(p.Changes) == 0 }

// Unread returns the kinds for which metadata is not enough: an object carries
// the right stamp, but only its full content shows whether it must be written.
func (p Plan) Unread() []schema.GroupVersionKind {
	seen := map[schema.GroupVersionKind]bool{}
	for _, changes := range p.Changes {
		for _, c := range changes {
			if c.Wanted.hasForm(c.Live) {
				seen[c.Wanted.GVK] = true
			}
		}
	}
	return sortKinds(maps.Keys(seen))
}

// isRepair reports whether the object had its form and was deleted or edited since, so that one
// apply restores it.
func (c Change) isRepair() bool {
	if c.Live == nil {
		return !IsDefinition(c.Wanted.Key.GroupKind)
	}
	return c.Wanted.hasForm(c.Live)
}
