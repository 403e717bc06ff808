package reconcile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

// The parent records the kinds of the set. Where it is deleted, an object of a
// kind that the bundle no longer has is found all the same.
func TestKindsAreSearchedWhereTheParentIsGone(t *testing.T) {
	priority := "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-p}\nvalue: 5\n"
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"), priority)
	r.mustComplete()
	r.use("1.1.0", configMap("a", "x: two"))
	if out, err := r.work(protocol.Work{Content: r.content}); err != nil || out.Owed != 1 { // the removal waits
		t.Fatalf("got %+v, %v, want one removal owed", out, err)
	}
	kindsOf := func() []string {
		return strings.Split(r.get(configMaps, r.ns, "set").GetAnnotations()["applyset.kubernetes.io/contains-group-kinds"], ",")
	}
	for name, lose := range map[string]func(){
		"without its kinds": func() {
			r.patch(configMaps, r.ns, "set", `{"metadata":{"annotations":{"applyset.kubernetes.io/contains-group-kinds":null}}}`)
		},
		"as it was, and by another": func() {},
	} {
		t.Run(name, func(t *testing.T) {
			lose()
			r.restart()
			if out, err := r.work(protocol.Work{Content: r.content}); err != nil || out.Owed != 1 {
				t.Errorf("got %+v, %v, want the removal still owed", out, err)
			}
			if kinds := kindsOf(); !slices.Contains(kinds, "PriorityClass.scheduling.k8s.io") {
				t.Errorf("the parent records %q", kinds)
			}
		})
	}
	// With the parent, the inventory is lost: what it had beside the bundle's objects
	// is a stranger, which stays, and is named from now on.
	r.delete(configMaps, r.ns, "set")
	r.restart()
	for range 2 {
		r.mustComplete()
		got := r.report()
		if len(got.Strangers) != 1 || got.TotalStrangers != 1 || !strings.HasSuffix(got.Strangers[0].Command, " -- "+r.ns+"-p") || got.Strangers[0].Manager != "lockstep" {
			t.Errorf("got %+v, want the object named", got.Strangers)
		}
		if kinds := kindsOf(); !slices.Contains(kinds, "PriorityClass.scheduling.k8s.io") {
			t.Errorf("the parent records %q", kinds)
		}
	}
	r.delete(priorityClasses, "", r.ns+"-p")
	r.mustComplete()
	if got, kinds := r.report(), kindsOf(); got.TotalStrangers != 0 || slices.Contains(kinds, "PriorityClass.scheduling.k8s.io") {
		t.Errorf("got %+v and kinds %q after the last stranger was deleted", got.Strangers, kinds)
	}
}

// A content epoch that no leader wrote, on an object of ours, is removed: no
// epoch of ours moves, and nothing else is written.
func TestForgedEpochIsRepaired(t *testing.T) {
	for _, epoch := range []string{"2", "4503599627370496", "4503599627370497", "9223372036854775807"} {
		t.Run(epoch, func(t *testing.T) {
			r := newRig(t)
			r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
			r.mustComplete()
			r.patch(configMaps, r.ns, "a", epochPatch("null"))
			r.patch(configMaps, r.ns, "a", epochPatch(`"`+epoch+`"`))
			if out := r.mustComplete(); out.HighestEpoch != r.epoch {
				t.Errorf("got %+v, want the epoch at %d", out, r.epoch)
			}
			if got := r.get(configMaps, r.ns, "a").GetAnnotations()["lockstep.dev/content-epoch"]; got != "1" {
				t.Errorf("got epoch %s", got)
			}
			r.mustComplete()
			if n := r.report().Objects.Applied; n != 0 {
				t.Errorf("%d objects were written again without a change", n)
			}
		})
	}
}
