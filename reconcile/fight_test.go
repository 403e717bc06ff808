package reconcile

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
)

func TestQuarrel(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	name := applyset.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "n", Name: "a"}
	t.Run("five within a minute are a fight, and slowed down to one in 30 s", func(t *testing.T) {
		qs, now := quarrels{}, begin
		var pauses []time.Duration
		for i := range 12 {
			begun := qs.of(name).repaired(now, ownership.Change{Manager: "other", Fields: []string{".data.x"}})
			if begun != (i == fightRepairs-1) {
				t.Errorf("repair %d: began a fight: %t", i+1, begun)
			}
			pauses = append(pauses, qs.notBefore(name).Sub(now)/time.Second)
			now = now.Add(max(time.Second, qs.notBefore(name).Sub(now)))
		}
		if want := []time.Duration{0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30, 30}; !slices.Equal(pauses, want) {
			t.Errorf("got pauses of %v s, want %v", pauses, want)
		}
		got := qs.fights()
		if len(got) != 1 || got[0].Object != `ConfigMap "n/a"` || got[0].Manager != "other" || got[0].Repairs != 12 || got[0].Since != begin {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("four a minute are none", func(t *testing.T) {
		qs := quarrels{}
		for i := range 40 {
			qs.of(name).repaired(begin.Add(time.Duration(i)*16*time.Second), ownership.Change{})
		}
		if got := qs.fights(); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("it is over when the object was left alone", func(t *testing.T) {
		qs := quarrels{}
		for range fightRepairs {
			qs.of(name).repaired(begin, ownership.Change{})
		}
		if next := qs.settle(begin.Add(fightOver - time.Second)); next != begin.Add(fightOver) || len(qs.fights()) != 1 {
			t.Errorf("got %v, %+v", next, qs.fights())
		}
		if next := qs.settle(begin.Add(fightOver)); !next.IsZero() || len(qs) != 0 {
			t.Errorf("got %v, %+v", next, qs)
		}
	})
	t.Run("a deletion does not hide who edits", func(t *testing.T) {
		q := &quarrel{}
		q.repaired(begin, ownership.Change{Manager: "other"})
		q.repaired(begin, ownership.Change{})
		if q.change.Manager != "other" {
			t.Errorf("got %+v", q.change)
		}
	})
}

// A pass leaves an object in a fight to Keep, unless Keep would ask for a pass.
func TestMakePlan_contested(t *testing.T) {
	k := driftKept(t)
	definition := k.want
	definition.gvk = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	definition.key = applyset.Key{GroupKind: definition.gvk.GroupKind(), Name: "x"}
	form := k.want.form
	for _, tt := range []struct {
		name string
		want wanted
		live *kube.Object
		left bool
	}{
		{"edited", k.want, metadataOf(t, "u", "11", "3", form, managed(less)), true},
		{"edited, and brought by older content", k.want, metadataOf(t, "u", "11", "2", form, managed(less)), true},
		{"deleted", k.want, nil, true},
		{"of another form", k.want, metadataOf(t, "u", "11", "2", "other", managed(less)), false},
		{"a garbage epoch", k.want, metadataOf(t, "u", "11", "9007199254740992", form, managed(less)), false},
		{"a definition, deleted", definition, nil, false},
		{"a definition, edited", definition, metadataOf(t, "u", "11", "3", form, managed(less)), true},
	} {
		w := world{
			content: content(release(1, 0, 0), 3), wanted: []wanted{tt.want},
			kinds: kindTable{tt.want.gvk: {served: true, resource: kube.Resource{GroupVersionKind: tt.want.gvk, Namespaced: tt.want.key.Namespace != ""}}},
		}
		if tt.live != nil {
			w.live = map[schema.GroupVersionKind]map[applyset.Key]*kube.Object{tt.want.gvk: {tt.want.key: tt.live}}
		}
		fights := quarrels{tt.want.key: {pause: time.Second}}
		if p := makePlan(w, fights.contested); p.contested[tt.want.key] != tt.left || p.empty() != tt.left {
			t.Errorf("%s: got left %t, empty %t; want left %t", tt.name, p.contested[tt.want.key], p.empty(), tt.left)
		}
		if p := makePlan(w, nil); len(p.contested) > 0 || p.empty() {
			t.Errorf("%s: left without a fight", tt.name)
		}
	}
}
