package reconcile

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestQuarrel(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	name := key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, namespace: "n", name: "a"}
	t.Run("five within a minute are a fight, and slowed down to one in 30 s", func(t *testing.T) {
		qs, now := quarrels{}, begin
		var pauses []time.Duration
		for i := range 12 {
			begun := qs.of(name).repaired(now, culprit{manager: "other", fields: []string{".data.x"}})
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
			qs.of(name).repaired(begin.Add(time.Duration(i)*16*time.Second), culprit{})
		}
		if got := qs.fights(); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("it is over when the object was left alone", func(t *testing.T) {
		qs := quarrels{}
		for range fightRepairs {
			qs.of(name).repaired(begin, culprit{})
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
		q.repaired(begin, culprit{manager: "other"})
		q.repaired(begin, culprit{})
		if q.culprit.manager != "other" {
			t.Errorf("got %+v", q.culprit)
		}
	})
}

// A pass leaves an object in a fight to Keep, unless Keep would ask for a pass.
func TestLeave(t *testing.T) {
	k := driftKept(t)
	namespace := k.want
	namespace.key = key{GroupKind: schema.GroupKind{Kind: "Namespace"}, name: "x"}
	form, content := k.want.form, stamp{epoch: 3}
	for _, tt := range []struct {
		name string
		change
		want bool
	}{
		{"edited", change{wanted: k.want, live: metadataOf(t, "u", "11", "3", form, managed(less)), stamp: content}, true},
		{"edited, and brought by older content", change{wanted: k.want, live: metadataOf(t, "u", "11", "2", form, managed(less)), stamp: stamp{epoch: 2}}, true},
		{"deleted", change{wanted: k.want, stamp: content}, true},
		{"of another form", change{wanted: k.want, live: metadataOf(t, "u", "11", "2", "other", managed(less)), stamp: content}, false},
		{"a garbage epoch", change{wanted: k.want, live: metadataOf(t, "u", "11", "9007199254740992", form, managed(less)), stamp: content}, false},
		{"a definition, deleted", change{wanted: namespace, stamp: content}, false},
		{"a definition, edited", change{wanted: namespace, live: metadataOf(t, "u", "11", "3", form, managed(less)), stamp: content}, true},
	} {
		qs := quarrels{tt.wanted.key: {pause: time.Second}}
		p := plan{changes: map[Wave][]change{WaveObjects: {tt.change}}}
		if left := p.leave(qs); left[tt.wanted.key] != tt.want || p.empty() != tt.want {
			t.Errorf("%s: got left %t, %d still to be done; want left %t", tt.name, left[tt.wanted.key], len(p.changes[WaveObjects]), tt.want)
		}
		if left := p.leave(quarrels{}); len(left) > 0 {
			t.Errorf("%s: left without a fight", tt.name)
		}
	}
}
