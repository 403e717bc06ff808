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
	for name, lose := range map[string]func(){
		"deleted": func() { r.delete(configMaps, r.ns, "set") },
		"without its kinds": func() {
			r.patch(configMaps, r.ns, "set", `{"metadata":{"annotations":{"applyset.kubernetes.io/contains-group-kinds":null}}}`)
		},
		"there, and by another": func() {},
	} {
		t.Run(name, func(t *testing.T) {
			lose()
			r.restart()
			if out, err := r.work(protocol.Work{Content: r.content}); err != nil || out.Owed != 1 {
				t.Errorf("got %+v, %v, want the removal still owed", out, err)
			}
			kinds := r.get(configMaps, r.ns, "set").GetAnnotations()["applyset.kubernetes.io/contains-group-kinds"]
			if !slices.Contains(strings.Split(kinds, ","), "PriorityClass.scheduling.k8s.io") {
				t.Errorf("the parent records %q", kinds)
			}
		})
	}
	r.mustComplete()
	await(t, "the object to be removed", func() error {
		_, err := r.api.Resource(priorityClasses).Get(t.Context(), r.ns+"-p", getOptions)
		return wantNotFound(err)
	})
}
