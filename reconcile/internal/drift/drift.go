// Package drift watches the objects of a set between passes, and classifies their changes
// (docs/protocol-objects.md#drift). It writes nothing: package reconcile repairs drifted objects.
//
// The package classifies a change from metadata alone, so that a change which is not ours to repair
// costs no request. The API server records in managedFields who set which field. A writer who
// changes or removes one of our fields takes it out of our entries. While our entries are the
// same, down to their times, no field of ours was changed, however often others write a status,
// or fields that no bundle names.
//
// Goroutines are the caller's: Watcher.Follow blocks.
package drift

import (
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// Baseline is the state that a complete pass left, with the changes since. One goroutine at a
// time uses it, except for Watches: see Watch.
type Baseline struct {
	Set      applyset.Set
	Content  protocol.Content
	Objects  map[applyset.Key]*Kept
	Unplaced map[applyset.Key]bool // wanted, but the pass could not place them
	Others   map[types.UID]bool    // in the set, but not wanted
	Members  applyset.Members
	Parent   applyset.ParentData
	Watches  []*Watch
}

// Kept is an object that is kept in place.
type Kept struct {
	Key      applyset.Key
	Wanted   plan.Wanted // empty for the parent
	Resource kube.Resource
	Parent   bool        // it is the set's parent
	Placed   plan.Placed // the version that is known to be in place

	Event *Event // the newest that was not handled yet; nil: none
	Busy  bool   // a repair is under way
}

// NewKept returns an object that is in place as live. w is empty for the parent.
func NewKept(w plan.Wanted, r kube.Resource, live *kube.Object) *Kept {
	out := &Kept{Key: w.Key, Wanted: w, Resource: r}
	out.SetPlaced(live)
	return out
}

// NewParent returns the parent of a set, which is in place as live.
func NewParent(s applyset.Set, live *kube.Object) *Kept {
	out := &Kept{Key: s.ParentKey(), Resource: applyset.ParentResource(), Parent: true}
	out.SetPlaced(live)
	return out
}

// SetPlaced notes that the object is in place as live.
func (o *Kept) SetPlaced(live *kube.Object) {
	o.Placed = plan.PlacedAs(o.Wanted, live)
	o.Placed.Own = ownership.Own(live)
}

// Event is a change of an object, from a watch or from a list that replaces it.
type Event struct {
	Key     applyset.Key
	Object  *kube.Object // nil: a list no longer contains it
	Deleted bool
	Version string // of the change; where Object is nil, of the list
}

// NewEvent returns the event that obj, of the given key, was created or changed.
func NewEvent(k applyset.Key, obj *kube.Object) *Event {
	return &Event{Key: k, Object: obj, Version: obj.GetResourceVersion()}
}

// After reports whether e is newer than o. Every event is newer than none.
func (e *Event) After(o *Event) bool { return o == nil || newer(e.Version, o.Version) }

// Effect is the effect of an event on an object.
type Effect int

// The effects.
const (
	Stale     Effect = iota + 1 // known already: our own write, or older than the known version
	Unrelated                   // another writer changed only fields that are not ours
	Deleting                    // it is being deleted; another event follows
	Drifted                     // it may need a repair: one apply finds out, and repairs it
	NeedsPass                   // one apply is not enough
)

// Assess returns the effect of the event of o.
func (b *Baseline) Assess(o *Kept) Effect {
	e := o.Event
	switch {
	case o.isStale(e):
		return Stale
	case e.Deleted && plan.IsDefinition(o.Key.GroupKind):
		return NeedsPass // everything in it was deleted with it
	case e.Deleted:
		return Drifted
	case e.Object.GetDeletionTimestamp() != nil:
		return Deleting
	case o.Parent:
		return b.assessParent(e)
	}
	return b.assessObject(o, e)
}

// isStale reports whether e contains nothing newer than o.Placed. A delete event for another
// UID is stale if that object came before ours, but not if it replaced ours.
func (o *Kept) isStale(e *Event) bool {
	if e.Deleted && e.Object != nil && e.Object.GetUID() == o.Placed.UID {
		return false
	}
	return !newer(e.Version, o.Placed.Version)
}

// newer reports whether resource version a of an object was written after b. The
// API server's versions are numbers that grow (KEP-5504). A version that is no
// number is newer if it differs, which costs a comparison.
func newer(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	if errA != nil || errB != nil {
		return a != b
	}
	return x > y
}

// assessObject is Assess for an object of the bundle or of the epoch policy that
// exists.
func (b *Baseline) assessObject(o *Kept, e *Event) Effect {
	stamp, complete := applyset.ReadStamp(e.Object)
	switch {
	case stamp.Epoch > b.Content.Epoch:
		return Drifted // forged, or of a newer leader: the repair reads the mark, and finds out
	case complete && e.Object.GetUID() == o.Placed.UID && ownership.Own(e.Object) == o.Placed.Own && metadataInPlace(o.Wanted, e.Object):
		return Unrelated
	}
	return Drifted
}

// metadataInPlace reports whether labels, annotations and form are as wanted.
// managedFields show who wrote them, but not a second write under our own name
// within one second.
func metadataInPlace(w plan.Wanted, live *kube.Object) bool {
	return kube.Annotation(live, bundle.AnnotationForm) == w.Form && ownership.MetadataInPlace(w.Object, live)
}

// assessParent is Assess for the parent, which exists.
func (b *Baseline) assessParent(e *Event) Effect {
	p := applyset.DecodeParent(e.Object)
	want, err := p.With(b.Set, b.Parent)
	switch {
	case err != nil || p.ForeignTo(b.Parent.Store) || p.Known && !p.Mark.SameContent(b.Parent.Mark):
		return NeedsPass // perhaps another leader wrote content
	case p.Matches(want, b.Parent.Mark):
		return Unrelated
	}
	return Drifted
}

// UnexpectedMember reports whether an event of an object that is not kept needs a
// full pass: the object is new and of the set.
func (b *Baseline) UnexpectedMember(e *Event) bool {
	return !e.Deleted && b.Members.Has(e.Key) && !b.Unplaced[e.Key] && !b.Others[e.Object.GetUID()] &&
		plan.IsMember(e.Object) && plan.MayPrune(e.Key.GroupKind, e.Object)
}
