package reconcile

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
)

// wanted is an object of the bundle or of the fence, made ready once for each
// bundle.
type wanted struct {
	key      applyset.Key
	gvk      schema.GroupVersionKind
	obj      *kube.Object // with the set's label, without a stamp; never changed
	form     string
	wave     Wave
	required bool
	recreate bool
	fence    bool // it is of the fence, not of the bundle
}

// prepare makes the fence and a bundle's objects ready to be compared and
// applied.
func prepare(b *bundle.Bundle, s applyset.Set) ([]wanted, error) {
	out := make([]wanted, 0, len(b.Objects)+len(applyset.FenceKinds()))
	for _, obj := range s.Fence() {
		hash, err := bundle.HashOf(obj)
		if err != nil {
			return nil, err
		}
		w := prepareObject(obj, hash, s)
		w.fence, w.wave = true, WaveFence
		out = append(out, w)
	}
	for i, manifest := range b.Objects {
		hash, err := b.Hash(i)
		if err != nil {
			return nil, err
		}
		out = append(out, prepareObject(manifest, hash, s))
	}
	return out, nil
}

// prepareObject labels a manifest and says how it is applied.
func prepareObject(manifest *kube.Object, hash bundle.Hash, s applyset.Set) wanted {
	obj := labelled(manifest, s)
	gvk, annotations := obj.GroupVersionKind(), obj.GetAnnotations()
	return wanted{
		key: applyset.KeyOf(gvk.GroupKind(), obj), gvk: gvk, obj: obj, form: applyset.FormOf(hash, s),
		wave:     waveOf(gvk.GroupKind()),
		required: annotations[bundle.AnnotationRequired] != "false",
		recreate: mayRecreate(gvk.GroupKind(), annotations),
	}
}

// labelled returns a manifest with the label of the set. It shares with it all
// that it does not change.
func labelled(manifest *kube.Object, s applyset.Set) *kube.Object {
	obj := &kube.Object{Object: maps.Clone(manifest.Object)}
	metadata := cloneField(obj.Object, "metadata")
	labels := cloneField(metadata, "labels")
	labels[bundle.LabelPartOf] = s.ID()
	metadata["labels"], obj.Object["metadata"] = labels, metadata
	return obj
}

// cloneField returns a copy of the map in a field; an empty one where there is
// none.
func cloneField(in map[string]any, field string) map[string]any {
	have, _ := in[field].(map[string]any)
	if have == nil {
		return map[string]any{}
	}
	return maps.Clone(have)
}

func mayRecreate(gk schema.GroupKind, annotations map[string]string) bool {
	if holdsData(gk) {
		return annotations[bundle.AnnotationRecreate] == "enabled"
	}
	return annotations[bundle.AnnotationRecreate] != "disabled"
}

// stamped returns a copy of the object that bears s, ready to be sent to r.
func (w wanted) stamped(s applyset.Stamp, r kube.Resource) *kube.Object {
	out := &kube.Object{Object: runtime.DeepCopyJSON(w.obj.Object)}
	if r.HasStatus {
		delete(out.Object, "status") // a write of the object does not touch it
	}
	s.Put(out, w.form)
	return out
}

// placed is the version of an object that is known to be in place: it compared
// equal to the wanted one, or the server had just accepted our apply. While the
// object has this version it is as wanted, however much the server normalized
// it, and its content does not have to be read.
type placed struct {
	uid     types.UID
	version string
	form    string
	own     string // the fields that we own, as ownership.Own prints them; empty: nothing compares them
}

func placedAs(w wanted, live *kube.Object) placed {
	return placed{uid: live.GetUID(), version: live.GetResourceVersion(), form: w.form}
}

// world is what a plan is made from.
type world struct {
	set     applyset.Set
	content protocol.Content
	wanted  []wanted
	kinds   kindTable
	live    map[schema.GroupVersionKind]map[applyset.Key]*kube.Object
	placed  map[applyset.Key]placed
	assumed map[applyset.Key]placed // what was not read, for it was in place as it is wanted
	failed  map[applyset.Key]string // what failed in this pass already: not tried twice
}

// change is one object that has to be written.
type change struct {
	wanted   wanted
	resource kube.Resource
	live     *kube.Object   // nil: it is created
	stamp    applyset.Stamp // to be written
}

// plan is what has to be done.
type plan struct {
	changes  map[Wave][]change
	problems map[applyset.Key]string // objects that cannot be applied as things are
	placed   map[applyset.Key]placed
	// contested are objects in a fight that a repair would bring back. They are
	// left to Keep, which makes pauses between repairs.
	contested map[applyset.Key]bool
}

// empty reports whether all objects are as they should be, but for those that
// cannot be.
func (p plan) empty() bool {
	for _, changes := range p.changes {
		if len(changes) > 0 {
			return false
		}
	}
	return true
}

// isRepair reports whether the object was deleted or edited since it was brought
// to its form, in a way that asks for no more than one apply (judgeNews).
func (c change) isRepair() bool {
	if c.live == nil {
		return !isDefinition(c.wanted.key.GroupKind)
	}
	found, _ := applyset.ReadStamp(c.live.GetAnnotations())
	return bearsForm(c.wanted, c.live) && found.Epoch <= c.stamp.Epoch
}

// unread returns the kinds of which an object is not known and looks as it
// should by its metadata: whether it has to be written, its contents tell.
func (p plan) unread() []schema.GroupVersionKind {
	seen := kindTable{}
	for _, changes := range p.changes {
		for _, c := range changes {
			if bearsForm(c.wanted, c.live) {
				seen[c.wanted.gvk] = kindState{}
			}
		}
	}
	return sortedKinds(seen)
}

// bearsForm reports whether live is there to stay, and is stamped as want's.
func bearsForm(want wanted, live *kube.Object) bool {
	if live == nil || live.GetDeletionTimestamp() != nil {
		return false
	}
	_, whole := applyset.ReadStamp(live.GetAnnotations())
	return whole && live.GetAnnotations()[bundle.AnnotationForm] == want.form
}

// makePlan decides for each wanted object what it needs. It is pure. contested
// reports whether Keep is to repair an object instead; nil: none.
func makePlan(w world, contested func(applyset.Key) bool) plan {
	out := plan{
		changes: map[Wave][]change{}, problems: map[applyset.Key]string{}, placed: map[applyset.Key]placed{}, contested: map[applyset.Key]bool{},
	}
	for _, want := range w.wanted {
		if why, failed := w.failed[want.key]; failed {
			out.problems[want.key] = why
			continue
		}
		if was, known := w.assumed[want.key]; known {
			out.placed[want.key] = was
			continue
		}
		r, problem := w.kinds.resource(want)
		switch {
		case want.key == w.set.ParentKey():
			problem = "is the parent of the set, which Lockstep itself writes; give it another name"
		case w.set.IsFence(want.key) && !want.fence:
			problem = "is the fence of the set, which Lockstep itself writes; give it another name"
		}
		if problem != "" {
			out.problems[want.key] = problem
			continue
		}
		live := w.live[want.gvk][want.key]
		s, needed := decide(want, live, w.content, w.placed[want.key])
		if !needed {
			out.placed[want.key] = placedAs(want, live)
			continue
		}
		c := change{wanted: want, resource: r, live: live, stamp: s}
		if contested != nil && contested(want.key) && c.isRepair() {
			out.contested[want.key] = true
			continue
		}
		out.changes[want.wave] = append(out.changes[want.wave], c)
	}
	return out
}

// decide says whether want has to be written over live, and with which stamp.
func decide(want wanted, live *kube.Object, c protocol.Content, known placed) (applyset.Stamp, bool) {
	if !bearsForm(want, live) {
		return applyset.StampOf(c), true
	}
	s, _ := applyset.ReadStamp(live.GetAnnotations())
	if s.Epoch > c.Epoch { // one that is believed would have ended the pass
		return applyset.StampOf(c), true
	}
	if known == placedAs(want, live) || ownership.InPlace(want.obj, live) {
		return s, false
	}
	// Somebody changed the object, or the server normalized it: the form is the
	// same, so the content that brought it is, too. Where it was only
	// normalized, an apply with the same stamp changes nothing.
	return s, true
}

// kindTable is what is known of the kinds that a bundle names.
type kindTable map[schema.GroupVersionKind]kindState

type kindState struct {
	resource kube.Resource
	served   bool
	err      error  // why it could not be found out, or its objects not be listed
	version  string // of the list of its objects; empty: there is none
}

// resource returns where want is kept, or why it cannot be applied.
func (t kindTable) resource(want wanted) (kube.Resource, string) {
	state := t[want.gvk]
	switch {
	case state.err != nil:
		return kube.Resource{}, state.err.Error()
	case !state.served:
		return kube.Resource{}, fmt.Sprintf("the API server does not know the kind %s of %s", want.gvk.Kind, want.gvk.GroupVersion())
	case state.resource.Namespaced && want.key.Namespace == "":
		return kube.Resource{}, fmt.Sprintf("a %s belongs to a namespace; set metadata.namespace", want.gvk.Kind)
	case !state.resource.Namespaced && want.key.Namespace != "":
		return kube.Resource{}, fmt.Sprintf("a %s belongs to no namespace; remove metadata.namespace", want.gvk.Kind)
	}
	return state.resource, ""
}

// highestEpoch is the highest content epoch that any live object believably
// bears.
func highestEpoch(live map[schema.GroupVersionKind]map[applyset.Key]*kube.Object) int64 {
	var highest int64
	for _, objects := range live {
		for _, obj := range objects {
			if epoch, newer := applyset.NewerEpoch(obj.GetAnnotations(), highest); newer {
				highest = epoch
			}
		}
	}
	return highest
}

// stampsOf returns all whole stamps, in no order.
func stampsOf(live map[schema.GroupVersionKind]map[applyset.Key]*kube.Object) []applyset.Stamp {
	var out []applyset.Stamp
	for _, objects := range live {
		for _, obj := range objects {
			if s, whole := applyset.ReadStamp(obj.GetAnnotations()); whole && s.Believable() {
				out = append(out, s)
			}
		}
	}
	return out
}
