package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

func TestMakePrune(t *testing.T) {
	s := applyset.Stamp{Epoch: 1, Release: release(1, 0, 0)}
	named := func(n int) []Wanted {
		var texts []string
		for i := range n {
			texts = append(texts, fmt.Sprintf(`{"metadata":{"name":"o-%02d"}}`, i))
		}
		return things(t, texts...)
	}
	all := func(ws []Wanted, edit func(*kube.Object)) (objects []*kube.Object) {
		for _, w := range ws {
			objects = append(objects, liveOf(w, s, edit))
		}
		return objects
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
		strange   bool // the inventory does not have them
		exist     int
		keep      int
		edit      func(*kube.Object)
		unread    Observation
		allowMass bool
		removals  int
		brake     string
	}{
		{name: "nothing was dropped", exist: 3, keep: 3},
		{name: "two were dropped", exist: 5, keep: 3, removals: 2},
		{name: "half of a large set", exist: 12, keep: 6, removals: 6},
		{name: "more than half of a large set", exist: 12, keep: 5, removals: 7, brake: "7 of 12"},
		{name: "more than half, as allowed", exist: 12, keep: 5, allowMass: true, removals: 7},
		{name: "nearly all of a small set", exist: 10, keep: 1, removals: 9},
		{name: "an empty bundle", exist: 3, keep: 0, allowMass: true, removals: 3, brake: "the bundle is empty"},
		{name: "a kind that cannot be read", exist: 3, keep: 2, removals: 1, brake: "is not known",
			unread: Observation{{Kind: "Other"}: {Err: errors.New("503")}}},
		{name: "strangers, whatever they carry", exist: 5, keep: 3, strange: true},
		{name: "many strangers do not pull the brake, nor release it", exist: 30, keep: 3, strange: true},
		{name: "protected", exist: 3, keep: 2, edit: annotate("disabled")},
		{name: "being deleted", exist: 3, keep: 2, edit: func(obj *kube.Object) { obj.SetDeletionTimestamp(&now) }},
		{name: "labelled by others", exist: 3, keep: 2, edit: func(obj *kube.Object) { obj.SetAnnotations(nil) }},
		{name: "copied by others", exist: 3, keep: 2, edit: func(obj *kube.Object) { obj.SetManagedFields(nil) }},
		{name: "made by a controller", exist: 3, keep: 2, edit: func(obj *kube.Object) {
			obj.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Deployment", Name: "x", Controller: &yes}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			objects := named(tt.exist)
			in := PruneInput{Wanted: objects[:tt.keep], Observed: served(thing, all(objects, tt.edit)...), AllowMass: tt.allowMass}
			maps.Copy(in.Observed, tt.unread)
			if !tt.strange {
				in.Inventory = InventoryOf(objects)
			}
			got := MakePrune(in)
			if owned := tt.name == "made by a controller"; got.Owned.Total > 0 != owned || len(got.Owned.First) != got.Owned.Total {
				t.Errorf("got %+v as owned", got.Owned)
			}
			if len(got.Removals) != tt.removals || !strings.Contains(got.Brake, tt.brake) || (tt.brake == "") != (got.Brake == "") {
				t.Errorf("got %d removals, brake %q, want %d, %q", len(got.Removals), got.Brake, tt.removals, tt.brake)
			}
		})
	}
}

// The fence is in every set, so it must not make an empty bundle look like one
// with objects, nor a set large enough for the brake.
func TestMakePrune_fenceDoesNotCount(t *testing.T) {
	fence, err := Prepare(&bundle.Bundle{}, applyset.Set{Name: "s", Namespace: "n"})
	if err != nil || len(fence) != len(applyset.FenceKinds()) {
		t.Fatalf("got %v, %v, want the fence alone", fence, err)
	}
	dropped := things(t, `{"metadata":{"name":"a"}}`)[0]
	var many []string
	for i := range massFloor {
		many = append(many, fmt.Sprintf(`{"metadata":{"name":"o-%02d"}}`, i))
	}
	for name, tt := range map[string]struct {
		keep, exist []Wanted
		removals    int
		brake       string
	}{
		"an empty bundle":             {exist: []Wanted{dropped}, removals: 1, brake: "the bundle is empty"},
		"nearly all of a small set":   {keep: things(t, many...)[:1], exist: things(t, many...), removals: massFloor - 1},
		"nothing of the fence itself": {keep: []Wanted{dropped}, exist: []Wanted{dropped}},
	} {
		all := served(thing)
		for _, w := range append(slices.Clone(fence), tt.exist...) {
			if _, known := all[w.GVK]; !known {
				maps.Copy(all, served(w.GVK))
			}
			all[w.GVK].Live[w.Key] = liveOf(w, applyset.Stamp{Epoch: 1, Release: release(1, 0, 0)}, nil)
		}
		got := MakePrune(PruneInput{
			Wanted: append(slices.Clone(fence), tt.keep...), Observed: all, Inventory: InventoryOf(tt.exist),
		})
		if len(got.Removals) != tt.removals || !strings.HasPrefix(got.Brake, tt.brake) || (tt.brake == "") != (got.Brake == "") {
			t.Errorf("%s: got %d removals, brake %q, want %d, %q", name, len(got.Removals), got.Brake, tt.removals, tt.brake)
		}
	}
}

func TestMayPrune_definitions(t *testing.T) {
	for _, gk := range []string{"Namespace", "CustomResourceDefinition.apiextensions.k8s.io"} {
		for value, want := range map[string]bool{"": false, "disabled": false, "yes": false, "enabled": true} {
			obj := &kube.Object{Object: map[string]any{}}
			obj.SetAnnotations(map[string]string{bundle.AnnotationPrune: value})
			if got := MayPrune(schema.ParseGroupKind(gk), obj); got != want {
				t.Errorf("%s with %q: got %t, want %t", gk, value, got, want)
			}
		}
	}
}
