package drift

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
)

func TestFights(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	name := applyset.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "n", Name: "a"}
	t.Run("five within a minute are a fight, and slowed down to one in 30 s", func(t *testing.T) {
		fs, now := Fights{}, begin
		var pauses []time.Duration
		for i := range 12 {
			begun := fs.Repaired(name, now, ownership.Change{Manager: "other", Fields: []string{".data.x"}})
			if begun != (i == fightRepairs-1) {
				t.Errorf("repair %d: began a fight: %t", i+1, begun)
			}
			pauses = append(pauses, fs.NotBefore(name).Sub(now)/time.Second)
			now = now.Add(max(time.Second, fs.NotBefore(name).Sub(now)))
		}
		if want := []time.Duration{0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30, 30}; !slices.Equal(pauses, want) {
			t.Errorf("got pauses of %v s, want %v", pauses, want)
		}
		got := fs.Report()
		if len(got) != 1 || got[0].Object != `ConfigMap "n/a"` || got[0].Manager != "other" || got[0].Repairs != 12 || !got[0].Since.Equal(begin) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("four a minute are none", func(t *testing.T) {
		fs := Fights{}
		for i := range 40 {
			fs.Repaired(name, begin.Add(time.Duration(i)*16*time.Second), ownership.Change{})
		}
		if got := fs.Report(); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("it is over when the object stayed unchanged", func(t *testing.T) {
		fs := Fights{}
		for range fightRepairs {
			fs.Repaired(name, begin, ownership.Change{})
		}
		if next := fs.Expire(begin.Add(fightOver - time.Second)); next != begin.Add(fightOver) || len(fs.Report()) != 1 {
			t.Errorf("got %v, %+v", next, fs.Report())
		}
		if next := fs.Expire(begin.Add(fightOver)); !next.IsZero() || len(fs) != 0 {
			t.Errorf("got %v, %+v", next, fs)
		}
	})
	t.Run("a deletion does not hide which writer edits", func(t *testing.T) {
		fs := Fights{}
		fs.Repaired(name, begin, ownership.Change{Manager: "other"})
		fs.Repaired(name, begin, ownership.Change{})
		if got := fs[name].change; got.Manager != "other" {
			t.Errorf("got %+v", got)
		}
	})
}
