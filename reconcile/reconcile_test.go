package reconcile_test

import (
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

func TestReconcile(t *testing.T) {
	r := newRig(t)
	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: NS-role}\nrules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n"
	class := "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-class}\nvalue: 5\nglobalDefault: false\n"
	r.use("1.0.0", configMap("a", "x: one", "y: two"), role, class)

	t.Run("the first pass creates everything", func(t *testing.T) {
		out := r.mustComplete()
		want := 3 + fenceObjects
		if got := r.report(); got.Objects.Applied != want || got.Objects.Unchanged != 0 || got.Objects.Desired != want || got.LastError != "" {
			t.Errorf("got %+v, want %d applied", got, want)
		}
		if out.HighestEpoch != 1 {
			t.Errorf("got highest epoch %d, want 1", out.HighestEpoch)
		}
	})
	t.Run("a pass without change writes nothing and lists each kind once", func(t *testing.T) {
		r.mustComplete()
		if writes := r.wire.writes(); len(writes) > 0 {
			t.Errorf("got writes %q, want none", writes)
		}
		if sent := r.wire.sent(); len(sent) != 4+fenceObjects {
			t.Errorf("got requests %q, want the parent and a list of each kind", sent)
		}
	})
	t.Run("another leader writes nothing", func(t *testing.T) {
		r.restart()
		r.mustComplete()
		if writes := r.wire.writes(); len(writes) > 0 {
			t.Errorf("got writes %q, want none", writes)
		}
	})
	t.Run("a change of one object writes that one, and it alone gets the new epoch", func(t *testing.T) {
		r.use("1.0.1", configMap("a", "x: one", "y: three"), role, class)
		r.mustComplete()
		if patches := r.wire.sent("PATCH", "POST", "DELETE"); len(patches) != 1 {
			t.Errorf("got writes %q, want one", patches)
		}
		if got := r.get(configMaps, r.ns, "a").GetAnnotations()["lockstep.dev/content-epoch"]; got != "2" {
			t.Errorf("got epoch %s on what changed, want 2", got)
		}
		role := r.get(clusterRoles, "", r.ns+"-role").GetAnnotations()
		if role["lockstep.dev/content-epoch"] != "1" || role["lockstep.dev/release"] != "1.0.0" {
			t.Errorf("got stamp %v on what did not change, want that of 1.0.0", role)
		}
	})
	t.Run("a field that the bundle drops goes", func(t *testing.T) {
		r.use("1.0.2", configMap("a", "y: three"), role, class)
		r.mustComplete()
		if data := r.get(configMaps, r.ns, "a").Object["data"].(map[string]any); len(data) != 1 || data["y"] != "three" {
			t.Errorf("got data %v, want y alone", data)
		}
	})
	t.Run("what another client changed is repaired, with the stamp it had", func(t *testing.T) {
		r.patch(configMaps, r.ns, "a", `{"data":{"y":"else","z":"added"}}`)
		r.mustComplete()
		obj := r.get(configMaps, r.ns, "a")
		if data := obj.Object["data"].(map[string]any); data["y"] != "three" || data["z"] != "added" {
			t.Errorf("got data %v, want y as before and z left alone", data)
		}
		if got := obj.GetAnnotations()["lockstep.dev/content-epoch"]; got != "3" {
			t.Errorf("got epoch %s, want 3", got)
		}
	})
	t.Run("what another client deleted comes back", func(t *testing.T) {
		r.delete(clusterRoles, "", r.ns+"-role")
		r.mustComplete()
		r.get(clusterRoles, "", r.ns+"-role")
	})
	t.Run("what the bundle drops waits until removals may be made", func(t *testing.T) {
		r.use("1.0.3", configMap("a", "y: three"), role)
		out, err := r.work(protocol.Work{Content: r.content, LeaderEpoch: 7})
		if err != nil || !out.Complete || out.Owed != 1 {
			t.Fatalf("got %+v, %v, want complete with one owed", out, err)
		}
		r.get(priorityClasses, "", r.ns+"-class")
		if out := r.mustComplete(); out.Owed != 0 {
			t.Errorf("got %d owed, want 0", out.Owed)
		}
		r.wantGone(priorityClasses, "", r.ns+"-class")
		if got := r.report(); got.Objects.Pruned != 1 {
			t.Errorf("got %+v, want 1 pruned", got)
		}
	})
}

func TestBuiltin(t *testing.T) {
	r := newRig(t)
	b, err := bundle.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	r.cfg.Bundle.Set(b)
	r.content = protocol.Content{Release: b.Version.Release, Constraints: b.Constraints, Digest: b.Digest, Epoch: 1}
	r.mustComplete()
	r.restart()
	r.mustComplete()
	if writes := r.wire.writes(); len(writes) > 0 {
		t.Errorf("got writes %q in the second pass, want none", writes)
	}
}
