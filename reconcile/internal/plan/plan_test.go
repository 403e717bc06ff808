package plan

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

func release(major, minor, patch int64) protocol.Release {
	return protocol.Release{Major: major, Minor: minor, Patch: patch}
}

func content(r protocol.Release, epoch int64) protocol.Content {
	return protocol.Content{
		Release: r, Digest: "sha256:" + r.String(), Epoch: epoch,
		Constraints: protocol.Constraints{MinReconciler: release(0, 9, 0), MinAPIServer: release(1, 0, 0)},
	}
}

// mustObject reads an object as the API returns it.
func mustObject(t *testing.T, text string) *kube.Object {
	t.Helper()
	var fields map[string]any
	obj := &kube.Object{}
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	for field, value := range map[string]any{"apiVersion": "v1", "kind": "Thing"} {
		if _, has := fields[field]; !has {
			fields[field] = value
		}
	}
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	if err := obj.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return obj
}

var thing = schema.GroupVersionKind{Group: "x.test", Version: "v1", Kind: "Thing"}

// things prepares the things of a bundle.
func things(t *testing.T, objects ...string) []Wanted {
	t.Helper()
	var out []Wanted
	for _, text := range objects {
		obj := mustObject(t, text)
		obj.SetGroupVersionKind(thing)
		hash, err := bundle.HashOf(obj)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, PrepareObject(obj, hash, applyset.Set{Name: "s", Namespace: "n"}))
	}
	return out
}

// liveOf returns what the API has of a wanted object after s was applied.
func liveOf(w Wanted, s applyset.Stamp, edit func(*kube.Object)) *kube.Object {
	obj := w.Stamped(s, kube.Resource{}).DeepCopy()
	obj.SetUID(types.UID("uid-" + w.Key.Name))
	obj.SetResourceVersion("7")
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: kube.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + bundle.AnnotationContentEpoch + `":{}}}}`),
	}})
	if edit != nil {
		edit(obj)
	}
	return obj
}

// served returns the observation of a kind that is served, with these objects.
func served(gvk schema.GroupVersionKind, objects ...*kube.Object) Observation {
	live := map[applyset.Key]*kube.Object{}
	for _, obj := range objects {
		live[applyset.KeyOf(gvk.GroupKind(), obj)] = obj
	}
	return Observation{gvk: {Served: true, Resource: kube.Resource{GroupVersionKind: gvk, Name: "things"}, Live: live}}
}

func TestDecide(t *testing.T) {
	c := content(release(1, 1, 0), 5)
	older := applyset.Stamp{Epoch: 2, Release: release(1, 0, 0), MinAPI: release(0, 1, 0)}
	annotate := func(name, value string) func(*kube.Object) {
		return func(obj *kube.Object) {
			a := obj.GetAnnotations()
			a[name] = value
			obj.SetAnnotations(a)
		}
	}
	edited := func(obj *kube.Object) { obj.Object["spec"] = map[string]any{"a": "edited"} }
	now := metav1.Now()
	tests := []struct {
		name   string
		edit   func(*kube.Object)
		absent bool
		known  Placed
		needed bool
		stamp  applyset.Stamp
	}{
		{name: "missing: created with the new stamp", absent: true, needed: true, stamp: applyset.StampOf(c)},
		{name: "as wanted: keeps its older stamp", stamp: older},
		{name: "edited by others: repaired with the stamp it had", edit: edited, needed: true, stamp: older},
		{name: "edited, but the server accepted it like that", edit: edited, known: Placed{UID: "uid-a", Version: "7", Form: "FORM"}, stamp: older},
		{name: "edited since the server accepted it", edit: edited, known: Placed{UID: "uid-a", Version: "6", Form: "FORM"}, needed: true, stamp: older},
		{name: "of another form: gets the new stamp", edit: annotate(bundle.AnnotationForm, "other"), needed: true, stamp: applyset.StampOf(c)},
		{name: "of another form, although it looks the same and was in place", edit: annotate(bundle.AnnotationForm, "other"), known: Placed{UID: "uid-a", Version: "7", Form: "FORM"}, needed: true, stamp: applyset.StampOf(c)},
		{name: "garbage in the stamp: gets the new one", edit: annotate(bundle.AnnotationContentEpoch, "many"), needed: true, stamp: applyset.StampOf(c)},
		{name: "a release that is garbage", edit: annotate(bundle.AnnotationRelease, "new"), needed: true, stamp: applyset.StampOf(c)},
		{name: "being deleted", edit: func(obj *kube.Object) { obj.SetDeletionTimestamp(&now) }, needed: true, stamp: applyset.StampOf(c)},
		{name: "label removed", edit: func(obj *kube.Object) { obj.SetLabels(nil) }, needed: true, stamp: older},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := things(t, `{"metadata":{"name":"a"},"spec":{"a":"b"}}`)[0]
			var obj *kube.Object
			if !tt.absent {
				obj = liveOf(want, older, tt.edit)
			}
			if tt.known.Form == "FORM" {
				tt.known.Form = want.Form
			}
			s, needed := Decide(want, obj, c, tt.known)
			if needed != tt.needed || s != tt.stamp {
				t.Errorf("got %+v, %t, want %+v, %t", s, needed, tt.stamp, tt.needed)
			}
		})
	}
}

func TestMake(t *testing.T) {
	objects := things(t, `{"metadata":{"name":"a"}}`, `{"metadata":{"name":"b"}}`, `{"metadata":{"name":"c"}}`, `{"metadata":{"name":"d","namespace":"n"}}`)
	c := content(release(1, 0, 0), 1)
	p := Make(Input{
		Content: c, Wanted: objects, Observed: served(thing, liveOf(objects[0], applyset.StampOf(c), nil)),
		Failed: map[applyset.Key]string{objects[1].Key: "refused"},
	})
	if len(p.Placed) != 1 || len(p.Changes[WaveObjects]) != 1 || p.Changes[WaveObjects][0].Wanted.Key.Name != "c" {
		t.Errorf("got %+v, want a in place and c to be created", p)
	}
	if len(p.Problems) != 2 || p.Problems[objects[1].Key] != "refused" || !strings.Contains(p.Problems[objects[3].Key], "belongs to no namespace") {
		t.Errorf("got problems %v", p.Problems)
	}
	if p.Empty() {
		t.Error("got an empty plan")
	}
	for name, observed := range map[string]Observation{
		"does not know the kind": {thing: {}},
		"no list":                {thing: {Err: errors.New("no list")}},
	} {
		p := Make(Input{Content: c, Wanted: objects[:1], Observed: observed})
		if !p.Empty() || !strings.Contains(p.Problems[objects[0].Key], name) {
			t.Errorf("got %+v, want the problem %q", p, name)
		}
	}
}

// A pass leaves an object in a fight to Keep, unless Keep would ask for a pass.
func TestMake_contested(t *testing.T) {
	object := things(t, `{"metadata":{"name":"a"},"spec":{"a":"b"}}`)[0]
	definition := object
	definition.GVK = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	definition.Key = applyset.Key{GroupKind: definition.GVK.GroupKind(), Name: "x"}
	edited := func(w Wanted, epoch int64, form string) *kube.Object {
		return liveOf(w, applyset.Stamp{Epoch: epoch, Release: release(1, 0, 0)}, func(obj *kube.Object) {
			annotations := obj.GetAnnotations()
			annotations[bundle.AnnotationForm] = form
			obj.SetAnnotations(annotations)
			obj.Object["spec"] = "edited"
		})
	}
	for _, tt := range []struct {
		name string
		want Wanted
		live *kube.Object
		left bool
	}{
		{"edited", object, edited(object, 3, object.Form), true},
		{"edited, and of older content", object, edited(object, 2, object.Form), true},
		{"deleted", object, nil, true},
		{"of another form", object, edited(object, 2, "other"), false},
		{"a forged epoch", object, edited(object, 1<<52, object.Form), true},
		{"a definition, deleted", definition, nil, false},
		{"a definition, edited", definition, edited(definition, 3, definition.Form), true},
	} {
		in := Input{
			Content: content(release(1, 0, 0), 3), Wanted: []Wanted{tt.want}, Observed: served(tt.want.GVK),
			Contested: func(applyset.Key) bool { return true },
		}
		if tt.live != nil {
			in.Observed[tt.want.GVK].Live[tt.want.Key] = tt.live
		}
		if p := Make(in); p.Contested[tt.want.Key] != tt.left || p.Empty() != tt.left {
			t.Errorf("%s: got left %t, empty %t; want left %t", tt.name, p.Contested[tt.want.Key], p.Empty(), tt.left)
		}
		in.Contested = nil
		if p := Make(in); len(p.Contested) > 0 || p.Empty() {
			t.Errorf("%s: left without a fight", tt.name)
		}
	}
}
