package drift

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// metadataOf is what a watch brings of the ConfigMap that newKept keeps.
func metadataOf(t *testing.T, uid, version, epoch, form, more string) *kube.Object {
	t.Helper()
	obj := &kube.Object{}
	text := fmt.Sprintf(`{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"a","namespace":"n","uid":%q,"resourceVersion":%q,
		"labels":{"applyset.kubernetes.io/part-of":%q,"theirs":"too"},
		"annotations":{"lockstep.dev/content-epoch":%q,"lockstep.dev/release":"1.0.0","lockstep.dev/min-apiserver-release":"0.0.0","lockstep.dev/form":%q}%s}}`,
		uid, version, applyset.Set{Name: "s", Namespace: "n"}.ID(), epoch, form, more)
	if err := json.Unmarshal([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

const (
	ours   = `{"manager":"lockstep","operation":"Apply","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:data":{"f:x":{},"f:y":{}}}}`
	less   = `{"manager":"lockstep","operation":"Apply","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:data":{"f:y":{}}}}`
	later  = `{"manager":"lockstep","operation":"Apply","time":"2026-01-01T00:00:09Z","fieldsV1":{"f:data":{"f:x":{},"f:y":{}}}}`
	status = `{"manager":"kubelet","operation":"Update","subresource":"status","time":"2026-01-01T00:00:03Z","fieldsV1":{"f:status":{}}}`
	other  = `{"manager":"other","operation":"Update","time":"2026-01-01T00:00:01Z","fieldsV1":{"f:data":{"f:x":{}}}}`
	newest = `{"manager":"newest","operation":"Update","time":"2026-01-01T00:00:02Z","fieldsV1":{"f:data":{"f:z":{}}}}`
)

func managed(entries string) string { return `,"managedFields":[` + entries + `]` }

func newKept(t *testing.T) *Kept {
	t.Helper()
	obj := &kube.Object{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "a", "namespace": "n"}, "data": map[string]any{"x": "one"}}}
	hash, err := bundle.HashOf(obj)
	if err != nil {
		t.Fatal(err)
	}
	w := plan.PrepareObject(obj, hash, applyset.Set{Name: "s", Namespace: "n"})
	return NewKept(w, kube.Resource{}, metadataOf(t, "u", "10", "3", w.Form, managed(ours)))
}

// assess returns what e means for an object of a leader whose content epoch is 3.
func assess(o *Kept, e *Event) Effect {
	if o.Event = e; e.Object != nil {
		e.Version = e.Object.GetResourceVersion()
	}
	return (&Baseline{Content: protocol.Content{Epoch: 3}}).Assess(o)
}

func TestBaseline_Assess(t *testing.T) {
	k := newKept(t)
	form := k.Wanted.Form
	for _, tt := range []struct {
		name  string
		event Event
		want  Effect
	}{
		{"our own write", Event{Object: metadataOf(t, "u", "10", "3", form, managed(ours))}, Stale},
		{"an older one", Event{Object: metadataOf(t, "u", "9", "3", form, managed(less))}, Stale},
		{"an older one, by number and not by letter", Event{Object: metadataOf(t, "u", "9", "3", form, managed(ours))}, Stale},
		{"a version that is no number", Event{Object: metadataOf(t, "u", "x", "3", form, managed(less))}, Drifted},
		{"another writer's status", Event{Object: metadataOf(t, "u", "11", "3", form, managed(ours+","+status))}, Unrelated},
		{"another writer's field", Event{Object: metadataOf(t, "u", "11", "3", form, managed(newest+","+ours))}, Unrelated},
		{"a field of ours", Event{Object: metadataOf(t, "u", "11", "3", form, managed(less+","+other))}, Drifted},
		{"a write in our name", Event{Object: metadataOf(t, "u", "11", "3", form, managed(later))}, Drifted},
		{"no record of fields", Event{Object: metadataOf(t, "u", "11", "3", form, "")}, Drifted},
		{"another form", Event{Object: metadataOf(t, "u", "11", "3", "garbage", managed(ours))}, Drifted},
		{"a garbage epoch", Event{Object: metadataOf(t, "u", "11", "garbage", form, managed(ours))}, Drifted},
		{"a higher epoch", Event{Object: metadataOf(t, "u", "11", "4", form, managed(less))}, Drifted},
		{"a higher epoch and nothing else", Event{Object: metadataOf(t, "u", "11", "4", form, managed(ours))}, Drifted},
		{"another object of its name", Event{Object: metadataOf(t, "v", "11", "3", form, managed(ours))}, Drifted},
		{"it is being deleted", Event{Object: metadataOf(t, "u", "11", "3", form, managed(ours)+`,"deletionTimestamp":"2026-01-01T00:00:00Z"`)}, Deleting},
		{"it was deleted", Event{Object: metadataOf(t, "u", "11", "3", form, managed(ours)), Deleted: true}, Drifted},
		{"an earlier one was deleted", Event{Object: metadataOf(t, "v", "9", "3", form, managed(ours)), Deleted: true}, Stale},
		{"one that replaced it was deleted", Event{Object: metadataOf(t, "v", "12", "3", form, managed(ours)), Deleted: true}, Drifted},
		{"a list no longer has it", Event{Deleted: true, Version: "11"}, Drifted},
		{"an older list does not have it", Event{Deleted: true, Version: "9"}, Stale},
	} {
		if got := assess(k, &tt.event); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
	namespace := &Kept{Key: applyset.Key{GroupKind: schema.GroupKind{Kind: "Namespace"}, Name: "x"}, Placed: k.Placed}
	if got := assess(namespace, &Event{Object: metadataOf(t, "u", "11", "3", form, ""), Deleted: true}); got != NeedsPass {
		t.Errorf("a deleted namespace: got %d, want %d", got, NeedsPass)
	}
}

// An object in a fight, as a pass leaves it, needs a repair also when it is deleted
// before its repair is due.
func TestBaseline_Assess_contested(t *testing.T) {
	w := newKept(t).Wanted
	live := metadataOf(t, "u", "10", "3", w.Form, managed(less))
	deleted := &Event{Object: metadataOf(t, "u", "12", "3", w.Form, managed(less)), Deleted: true}
	for _, left := range []*Event{NewEvent(w.Key, live), {Key: w.Key, Deleted: true, Version: "11"}} {
		o := &Kept{Key: w.Key, Wanted: w}
		for _, e := range []*Event{left, deleted} {
			if got := assess(o, e); got != Drifted {
				t.Errorf("deleted: %t: got %d, want %d", e.Deleted, got, Drifted)
			}
		}
	}
}

func TestBaseline_Assess_parent(t *testing.T) {
	s, content := applyset.Set{Name: "s", Namespace: "n"}, protocol.Content{Digest: "d", Epoch: 3}
	r := applyset.MarkData{FirstDone: true, Entries: []protocol.Content{content}}
	parentWith := func(r applyset.MarkData, version string) *kube.Object {
		obj, err := applyset.Parent{}.With(s, applyset.ParentData{Mark: r})
		if err != nil {
			t.Fatal(err)
		}
		obj.SetUID("u")
		obj.SetResourceVersion(version)
		return obj
	}
	b := &Baseline{Set: s, Content: content, Parent: applyset.ParentData{Mark: r}}
	o := NewParent(s, parentWith(r, "10"))
	annotated, unlabelled, garbage := parentWith(r, "11"), parentWith(r, "11"), parentWith(r, "11")
	annotations := annotated.GetAnnotations()
	annotations["their"] = "s"
	annotated.SetAnnotations(annotations)
	unlabelled.SetLabels(nil)
	garbage.Object["data"] = map[string]any{"mark.json": "garbage"}
	more := r
	more.Entries = append(slices.Clone(r.Entries), protocol.Content{Digest: "e", Epoch: 4})
	for _, tt := range []struct {
		name  string
		event Event
		want  Effect
	}{
		{"our own write", Event{Object: parentWith(r, "10")}, Stale},
		{"annotated by another writer", Event{Object: annotated}, Unrelated},
		{"its label was removed", Event{Object: unlabelled}, Drifted},
		{"its mark is garbage", Event{Object: garbage}, Drifted},
		{"its mark names other content", Event{Object: parentWith(more, "11")}, NeedsPass},
		{"it was deleted", Event{Object: parentWith(r, "11"), Deleted: true}, Drifted},
	} {
		tt.event.Version = tt.event.Object.GetResourceVersion()
		if o.Event = &tt.event; b.Assess(o) != tt.want {
			got := b.Assess(o)
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}
