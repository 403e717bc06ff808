package reconcile_test

import (
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

// A set belongs to one store: its ID is written on a parent that has none, and a
// leader of another store writes nothing.
func TestStore(t *testing.T) {
	const ours, theirs = "0123456789abcdef0123456789abcdef", "ffffffffffffffffffffffffffffffff"
	r := newRig(t)
	work := func(store string) protocol.Work {
		return protocol.Work{Content: r.content, Removals: true, LeaderEpoch: 7, Store: store}
	}
	onParent := func() string { return r.get(configMaps, r.ns, "set").GetAnnotations()["lockstep.dev/store"] }
	r.use("1.0.0", configMap("a", "x: one"))
	r.mustComplete()
	if got := r.survey(); got.Store != "" || onParent() != "" {
		t.Fatalf("got %+v, want no store", got)
	}
	t.Run("a pass without a change writes it on a parent that has none", func(t *testing.T) {
		if out, err := r.work(work(ours)); err != nil || !out.Complete || out.ForeignStore != "" || onParent() != ours {
			t.Errorf("got %+v, %v, and %q on the parent", out, err, onParent())
		}
		if got := r.survey(); got.Store != ours || got.Kind != protocol.MarkPresent {
			t.Errorf("the survey got %+v", got)
		}
		if out, err := r.work(work(ours)); err != nil || !out.Complete || len(r.wire.writes()) > 0 {
			t.Errorf("again: got %+v, %v, %q", out, err, r.wire.writes())
		}
	})
	r.use("1.0.1", configMap("a", "x: two"))
	for name, store := range map[string]string{"another one": theirs, "none that is known": ""} {
		t.Run("a leader of "+name+" writes nothing", func(t *testing.T) {
			out, err := r.work(work(store))
			if err != nil || out.Complete || out.ForeignStore != ours || len(r.wire.writes()) > 0 || r.report().LastError == "" {
				t.Errorf("got %+v, %v, %q, %q", out, err, r.wire.writes(), r.report().LastError)
			}
		})
	}
	t.Run("the store of a parent with a damaged mark is known", func(t *testing.T) {
		r.patch(configMaps, r.ns, "set", `{"data":{"mark.json":"garbage"}}`)
		if got := r.survey(); got.Store != ours {
			t.Errorf("the survey got %+v", got)
		}
		if out, err := r.work(work(ours)); err != nil || !out.Complete {
			t.Errorf("got %+v, %v", out, err)
		}
	})
	t.Run("Keep asks for a pass where it changes, and writes it again where it is removed", func(t *testing.T) {
		k := r.keepAfter(longLease)
		r.patch(configMaps, r.ns, "set", `{"metadata":{"annotations":{"lockstep.dev/store":null}}}`)
		k.awaitRepairs(1)
		if onParent() != ours {
			t.Errorf("got %q on the parent", onParent())
		}
		r.wire.reset()
		r.patch(configMaps, r.ns, "set", `{"metadata":{"annotations":{"lockstep.dev/store":"`+theirs+`"}}}`)
		_ = k.wantDue()
		if writes := r.wire.writes(); len(writes) > 0 {
			t.Errorf("got %q, want nothing written", writes)
		}
	})
}
