package reconcile

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
)

// metadataOf is what a watch tells of the ConfigMap that driftKept keeps.
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

func driftKept(t *testing.T) *kept {
	t.Helper()
	obj := &kube.Object{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "a", "namespace": "n"}, "data": map[string]any{"x": "one"}}}
	hash, err := bundle.HashOf(obj)
	if err != nil {
		t.Fatal(err)
	}
	w := prepareObject(obj, hash, applyset.Set{Name: "s", Namespace: "n"})
	return &kept{key: w.key, want: w, placed: placedWithFields(metadataOf(t, "u", "10", "3", w.form, managed(ours)), w.form)}
}

func TestJudgeNews(t *testing.T) {
	k := driftKept(t)
	form := k.want.form
	for _, tt := range []struct {
		name string
		news news
		want finding
	}{
		{"the own write", news{obj: metadataOf(t, "u", "10", "3", form, managed(ours))}, findOld},
		{"an older one", news{obj: metadataOf(t, "u", "9", "3", form, managed(less))}, findOld},
		{"an older one, by number and not by letter", news{obj: metadataOf(t, "u", "9", "3", form, managed(ours))}, findOld},
		{"a version that is no number", news{obj: metadataOf(t, "u", "x", "3", form, managed(less))}, findDrift},
		{"somebody's status", news{obj: metadataOf(t, "u", "11", "3", form, managed(ours+","+status))}, findAside},
		{"somebody's field", news{obj: metadataOf(t, "u", "11", "3", form, managed(newest+","+ours))}, findAside},
		{"a field of ours", news{obj: metadataOf(t, "u", "11", "3", form, managed(less+","+other))}, findDrift},
		{"a write in our name", news{obj: metadataOf(t, "u", "11", "3", form, managed(later))}, findDrift},
		{"no record of fields", news{obj: metadataOf(t, "u", "11", "3", form, "")}, findDrift},
		{"another form", news{obj: metadataOf(t, "u", "11", "3", "garbage", managed(ours))}, findDrift},
		{"a garbage epoch", news{obj: metadataOf(t, "u", "11", "garbage", form, managed(ours))}, findDrift},
		{"a higher epoch", news{obj: metadataOf(t, "u", "11", "4", form, managed(less))}, findBeyond},
		{"another object of its name", news{obj: metadataOf(t, "v", "11", "3", form, managed(ours))}, findDrift},
		{"it is being deleted", news{obj: metadataOf(t, "u", "11", "3", form, managed(ours)+`,"deletionTimestamp":"2026-01-01T00:00:00Z"`)}, findWaiting},
		{"it is gone", news{obj: metadataOf(t, "u", "11", "3", form, managed(ours)), gone: true}, findDrift},
		{"an earlier one is gone", news{obj: metadataOf(t, "v", "9", "3", form, managed(ours)), gone: true}, findOld},
		{"one that took its place is gone", news{obj: metadataOf(t, "v", "12", "3", form, managed(ours)), gone: true}, findDrift},
		{"a list lacks it", news{gone: true, version: "11"}, findDrift},
		{"a list from before lacks it", news{gone: true, version: "9"}, findOld},
	} {
		if got := judgeNews(k, &tt.news, 3); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
	namespace := &kept{key: applyset.Key{GroupKind: schema.GroupKind{Kind: "Namespace"}, Name: "x"}, placed: k.placed}
	if got := judgeNews(namespace, &news{obj: metadataOf(t, "u", "11", "3", form, ""), gone: true}, 3); got != findBeyond {
		t.Errorf("a namespace that is gone: got %d, want %d", got, findBeyond)
	}
}

// An object in a fight, as a pass leaves it, is put back also when it is deleted
// before its turn has come.
func TestJudgeNews_quarrelled(t *testing.T) {
	k := driftKept(t)
	live := metadataOf(t, "u", "10", "3", k.want.form, managed(less))
	p := &pass{found: found{kinds: kindTable{k.want.gvk: {version: "11"}}}}
	for _, left := range []*kept{p.quarrelled(k.want, live), p.quarrelled(k.want, nil)} {
		gone := news{obj: metadataOf(t, "u", "12", "3", k.want.form, managed(less)), gone: true}
		for _, n := range []*news{left.news, &gone} {
			if got := judgeNews(left, n, 3); got != findDrift {
				t.Errorf("gone: %t: got %d, want %d", n.gone, got, findDrift)
			}
		}
	}
}

func TestJudgeParentNews(t *testing.T) {
	s, content := applyset.Set{Name: "s", Namespace: "n"}, protocol.Content{Digest: "d", Epoch: 3}
	r := applyset.MarkData{FirstDone: true, Entries: []protocol.Content{content}}
	parentWith := func(r applyset.MarkData, version string) *kube.Object {
		obj, err := applyset.Parent{}.With(s, r, applyset.Contents{})
		if err != nil {
			t.Fatal(err)
		}
		obj.SetUID("u")
		obj.SetResourceVersion(version)
		return obj
	}
	k := &kept{key: s.ParentKey(), parent: true, placed: placedWithFields(parentWith(r, "10"), "")}
	annotated, unlabelled, garbage := parentWith(r, "11"), parentWith(r, "11"), parentWith(r, "11")
	annotations := annotated.GetAnnotations()
	annotations["their"] = "s"
	annotated.SetAnnotations(annotations)
	unlabelled.SetLabels(nil)
	garbage.Object["data"] = map[string]any{"mark.json": "garbage"}
	more := r
	more.Entries = append(slices.Clone(r.Entries), protocol.Content{Digest: "e", Epoch: 4})
	for _, tt := range []struct {
		name string
		news news
		want finding
	}{
		{"the own write", news{obj: parentWith(r, "10")}, findOld},
		{"annotated by somebody", news{obj: annotated}, findAside},
		{"its label is gone", news{obj: unlabelled}, findDrift},
		{"its mark is garbage", news{obj: garbage}, findDrift},
		{"its mark names other content", news{obj: parentWith(more, "11")}, findBeyond},
		{"it is gone", news{obj: parentWith(r, "11"), gone: true}, findDrift},
	} {
		if got := judgeParentNews(k, &tt.news, s, r, applyset.Contents{}); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}
