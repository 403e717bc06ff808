package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// mustObject reads an object as it comes from the API.
func mustObject(t *testing.T, text string) *kube.Object {
	t.Helper()
	var content map[string]any
	obj := &kube.Object{}
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	for field, value := range map[string]any{"apiVersion": "v1", "kind": "Thing"} {
		if _, has := content[field]; !has {
			content[field] = value
		}
	}
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := obj.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return obj
}

var thing = schema.GroupVersionKind{Group: "x.test", Version: "v1", Kind: "Thing"}

// things makes a bundle of things by name, prepared, without the fence.
func things(t *testing.T, objects ...string) []wanted {
	t.Helper()
	b := &bundle.Bundle{}
	for _, text := range objects {
		obj := mustObject(t, text)
		obj.SetGroupVersionKind(thing)
		b.Objects = append(b.Objects, obj)
	}
	out, err := prepare(b, applyset.Set{Name: "s", Namespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	return out[len(applyset.FenceKinds()):]
}

// live makes of a wanted object what the API has after s was applied.
func live(w wanted, s applyset.Stamp, edit func(*kube.Object)) *kube.Object {
	obj := w.stamped(s, kube.Resource{})
	obj.SetUID(types.UID("uid-" + w.key.Name))
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

func liveSet(objects ...*kube.Object) map[schema.GroupVersionKind]map[applyset.Key]*kube.Object {
	out := map[applyset.Key]*kube.Object{}
	for _, obj := range objects {
		out[applyset.KeyOf(obj.GroupVersionKind().GroupKind(), obj)] = obj
	}
	return map[schema.GroupVersionKind]map[applyset.Key]*kube.Object{thing: out}
}

func served(gvk schema.GroupVersionKind) kindTable {
	return kindTable{gvk: {served: true, resource: kube.Resource{GroupVersionKind: gvk, Name: "things"}}}
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
		known  placed
		needed bool
		stamp  applyset.Stamp
	}{
		{name: "missing: created with the new stamp", absent: true, needed: true, stamp: applyset.StampOf(c)},
		{name: "as wanted: keeps its older stamp", stamp: older},
		{name: "edited by others: put right with the stamp it had", edit: edited, needed: true, stamp: older},
		{name: "edited, but the server took it like that", edit: edited, known: placed{uid: "uid-a", version: "7", form: "FORM"}, stamp: older},
		{name: "edited since the server took it", edit: edited, known: placed{uid: "uid-a", version: "6", form: "FORM"}, needed: true, stamp: older},
		{name: "of another form: gets the new stamp", edit: annotate(bundle.AnnotationForm, "other"), needed: true, stamp: applyset.StampOf(c)},
		{name: "of another form, although it looks the same and was accepted", edit: annotate(bundle.AnnotationForm, "other"), known: placed{uid: "uid-a", version: "7", form: "FORM"}, needed: true, stamp: applyset.StampOf(c)},
		{name: "garbage in the stamp: gets the new one", edit: annotate(bundle.AnnotationContentEpoch, "many"), needed: true, stamp: applyset.StampOf(c)},
		{name: "a release that is garbage", edit: annotate(bundle.AnnotationRelease, "new"), needed: true, stamp: applyset.StampOf(c)},
		{name: "on its way out", edit: func(obj *kube.Object) { obj.SetDeletionTimestamp(&now) }, needed: true, stamp: applyset.StampOf(c)},
		{name: "label taken away", edit: func(obj *kube.Object) { obj.SetLabels(nil) }, needed: true, stamp: older},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := things(t, `{"metadata":{"name":"a"},"spec":{"a":"b"}}`)[0]
			var obj *kube.Object
			if !tt.absent {
				obj = live(want, older, tt.edit)
			}
			if tt.known.form == "FORM" {
				tt.known.form = want.form
			}
			s, needed := decide(want, obj, c, tt.known)
			if needed != tt.needed || s != tt.stamp {
				t.Errorf("got %+v, %t, want %+v, %t", s, needed, tt.stamp, tt.needed)
			}
		})
	}
}

func TestMakePlan(t *testing.T) {
	objects := things(t, `{"metadata":{"name":"a"}}`, `{"metadata":{"name":"b"}}`, `{"metadata":{"name":"c"}}`, `{"metadata":{"name":"d","namespace":"n"}}`)
	c := content(release(1, 0, 0), 1)
	p := makePlan(world{
		content: c, wanted: objects, kinds: served(thing),
		live:   liveSet(live(objects[0], applyset.StampOf(c), nil)),
		failed: map[applyset.Key]string{objects[1].key: "refused"},
	}, nil)
	if len(p.placed) != 1 || len(p.changes[WaveObjects]) != 1 || p.changes[WaveObjects][0].wanted.key.Name != "c" {
		t.Errorf("got %+v, want a in place and c to be created", p)
	}
	if len(p.problems) != 2 || p.problems[objects[1].key] != "refused" || !strings.Contains(p.problems[objects[3].key], "belongs to no namespace") {
		t.Errorf("got problems %v", p.problems)
	}
	if p.empty() {
		t.Error("got an empty plan")
	}
	for name, kinds := range map[string]kindTable{
		"does not know the kind": {thing: {}},
		"no list":                {thing: {err: errors.New("no list")}},
	} {
		p := makePlan(world{content: c, wanted: objects[:1], kinds: kinds}, nil)
		if !p.empty() || !strings.Contains(p.problems[objects[0].key], name) {
			t.Errorf("got %+v, want the problem %q", p, name)
		}
	}
}

func TestWaveOf(t *testing.T) {
	for gk, want := range map[string]Wave{
		"Namespace": WaveDefinitions, "CustomResourceDefinition.apiextensions.k8s.io": WaveDefinitions,
		"ConfigMap": WaveObjects, "ClusterRole.rbac.authorization.k8s.io": WaveObjects, "Namespace.other.test": WaveObjects,
		"ValidatingAdmissionPolicy.admissionregistration.k8s.io":        WaveAdmission,
		"ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io": WaveAdmission,
		"MutatingAdmissionPolicy.admissionregistration.k8s.io":          WaveAdmission,
		"MutatingWebhookConfiguration.admissionregistration.k8s.io":     WaveAdmission,
	} {
		if got := waveOf(schema.ParseGroupKind(gk)); got != want {
			t.Errorf("%s: got wave %d, want %d", gk, got, want)
		}
	}
}

func TestMakePruneSet(t *testing.T) {
	s := applyset.Stamp{Epoch: 1, Release: release(1, 0, 0)}
	named := func(n int) []wanted {
		var texts []string
		for i := range n {
			texts = append(texts, fmt.Sprintf(`{"metadata":{"name":"o-%02d"}}`, i))
		}
		return things(t, texts...)
	}
	all := func(ws []wanted, edit func(*kube.Object)) map[schema.GroupVersionKind]map[applyset.Key]*kube.Object {
		var objects []*kube.Object
		for _, w := range ws {
			objects = append(objects, live(w, s, edit))
		}
		return liveSet(objects...)
	}
	now := metav1.Now()
	annotate := func(value string) func(*kube.Object) {
		return func(obj *kube.Object) {
			a := obj.GetAnnotations()
			a[bundle.AnnotationPrune] = value
			obj.SetAnnotations(a)
		}
	}
	yes := true
	tests := []struct {
		name      string
		there     int
		keep      int
		edit      func(*kube.Object)
		kinds     kindTable
		allowMass bool
		removals  int
		held      string
	}{
		{name: "nothing was dropped", there: 3, keep: 3},
		{name: "two were dropped", there: 5, keep: 3, removals: 2},
		{name: "half of a large set", there: 12, keep: 6, removals: 6},
		{name: "more than half of a large set", there: 12, keep: 5, removals: 7, held: "7 of 12"},
		{name: "more than half, as allowed", there: 12, keep: 5, allowMass: true, removals: 7},
		{name: "nearly all of a small set", there: 10, keep: 1, removals: 9},
		{name: "an empty bundle", there: 3, keep: 0, allowMass: true, removals: 3, held: "the bundle is empty"},
		{name: "a kind that cannot be read", there: 3, keep: 2, removals: 1, held: "is not known",
			kinds: kindTable{thing: {served: true}, {Kind: "Other"}: {err: errors.New("503")}}},
		{name: "protected", there: 3, keep: 2, edit: annotate("disabled")},
		{name: "on its way out", there: 3, keep: 2, edit: func(obj *kube.Object) { obj.SetDeletionTimestamp(&now) }},
		{name: "labelled by others", there: 3, keep: 2, edit: func(obj *kube.Object) { obj.SetAnnotations(nil) }},
		{name: "copied by others", there: 3, keep: 2, edit: func(obj *kube.Object) { obj.SetManagedFields(nil) }},
		{name: "made by a controller", there: 3, keep: 2, edit: func(obj *kube.Object) {
			obj.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Deployment", Name: "x", Controller: &yes}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			objects := named(tt.there)
			kinds := tt.kinds
			if kinds == nil {
				kinds = served(thing)
			}
			got := makePruneSet(pruneInput{wanted: objects[:tt.keep], kinds: kinds, live: all(objects, tt.edit), allowMass: tt.allowMass})
			if len(got.removals) != tt.removals || !strings.Contains(got.held, tt.held) || (tt.held == "") != (got.held == "") {
				t.Errorf("got %d removals, held %q, want %d, %q", len(got.removals), got.held, tt.removals, tt.held)
			}
		})
	}
}

// The fence is in every set, so it must not make an empty bundle look like one
// with objects, nor a set large enough for the brake.
func TestFenceDoesNotCount(t *testing.T) {
	fence, err := prepare(&bundle.Bundle{}, applyset.Set{Name: "s", Namespace: "n"})
	if err != nil || len(fence) != len(applyset.FenceKinds()) {
		t.Fatalf("got %v, %v, want the fence alone", fence, err)
	}
	dropped := things(t, `{"metadata":{"name":"a"}}`)[0]
	var many []string
	for i := range massFloor {
		many = append(many, fmt.Sprintf(`{"metadata":{"name":"o-%02d"}}`, i))
	}
	for name, tt := range map[string]struct {
		keep, there []wanted
		removals    int
		held        string
	}{
		"an empty bundle":             {there: []wanted{dropped}, removals: 1, held: "the bundle is empty"},
		"nearly all of a small set":   {keep: things(t, many...)[:1], there: things(t, many...), removals: massFloor - 1},
		"nothing of the fence itself": {keep: []wanted{dropped}, there: []wanted{dropped}},
	} {
		kinds, there := served(thing), liveSet()
		for _, w := range append(slices.Clone(fence), tt.there...) {
			if kinds[w.gvk] = served(w.gvk)[w.gvk]; there[w.gvk] == nil {
				there[w.gvk] = map[applyset.Key]*kube.Object{}
			}
			there[w.gvk][w.key] = live(w, applyset.Stamp{Epoch: 1, Release: release(1, 0, 0)}, nil)
		}
		got := makePruneSet(pruneInput{wanted: append(slices.Clone(fence), tt.keep...), kinds: kinds, live: there})
		if len(got.removals) != tt.removals || !strings.HasPrefix(got.held, tt.held) || (tt.held == "") != (got.held == "") {
			t.Errorf("%s: got %d removals, held %q, want %d, %q", name, len(got.removals), got.held, tt.removals, tt.held)
		}
	}
}

func TestMayPruneDefinitions(t *testing.T) {
	for _, gk := range []string{"Namespace", "CustomResourceDefinition.apiextensions.k8s.io"} {
		for value, want := range map[string]bool{"": false, "disabled": false, "yes": false, "enabled": true} {
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			obj.SetAnnotations(map[string]string{bundle.AnnotationPrune: value})
			if got := mayPrune(schema.ParseGroupKind(gk), obj); got != want {
				t.Errorf("%s with %q: got %t, want %t", gk, value, got, want)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	gr := schema.GroupResource{Resource: "things"}
	status := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message}}
	}
	for name, tt := range map[string]struct {
		err  error
		want judgement
	}{
		"conflict":              {apierrors.NewConflict(gr, "x", errors.New("modified")), again},
		"exists":                {apierrors.NewAlreadyExists(gr, "x"), again},
		"exists, being deleted": {status(http.StatusConflict, "object is being deleted: things \"x\" already exists"), wait},
		"too many":              {apierrors.NewTooManyRequests("busy", 1), wait},
		"timeout":               {apierrors.NewTimeoutError("slow", 1), wait},
		"no answer":             {&kube.TransportError{Err: errors.New("reset")}, wait},
		"lease":                 {fmt.Errorf("x: %w", ErrLeaseOver), fatal},
		"forbidden":             {apierrors.NewForbidden(gr, "x", nil), refused},
		"bad request":           {apierrors.NewBadRequest("no"), refused},
		"invalid":               {status(http.StatusUnprocessableEntity, "spec.size: Invalid value"), refused},
		"immutable":             {status(http.StatusUnprocessableEntity, "spec.x: Invalid value: field is immutable"), immutable},
		"roleRef":               {status(http.StatusUnprocessableEntity, "roleRef: Invalid value: cannot change roleRef"), immutable},
		"parameters":            {status(http.StatusUnprocessableEntity, "parameters: Forbidden: updates to parameters are forbidden."), immutable},
		"value":                 {status(http.StatusUnprocessableEntity, "value: Forbidden: may not be changed in an update."), immutable},
		"immutable, but 403":    {status(http.StatusForbidden, "denied: immutable"), refused},
		"anything":              {errors.New("anything"), refused},
	} {
		if got := judge(tt.err); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	err := errors.New("Secret \"x\" is invalid: data: Invalid value: \"hunter2\"")
	if got := describe(applyset.Key{GroupKind: schema.GroupKind{Kind: "Secret"}, Name: "x"}, err); strings.Contains(got, "hunter2") {
		t.Errorf("got %q, want it withheld", got)
	}
	if got := describe(applyset.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Name: "x"}, err); got != err.Error() {
		t.Errorf("got %q, want the API's words", got)
	}
	long := describe(applyset.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}}, errors.New(strings.Repeat("ä", 2000)))
	if len(long) > maxMessage+10 || strings.Contains(long, "\uFFFD") {
		t.Errorf("got %d bytes", len(long))
	}
}
