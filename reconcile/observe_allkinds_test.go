package reconcile_test

import (
	"fmt"
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
			mark := r.survey()
			if name == "deleted" && (len(mark.Entries) != 2 || mark.Entries[0].Release.Minor != 0) {
				t.Errorf("got %+v, want the content of the forgotten kind too", mark)
			}
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

// A writer of the highest epoch that is believed on an object does not lock
// the leaders out: they count on.
func TestHighestEpochLocksNobodyOut(t *testing.T) {
	const highest = 1 << 52
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	r.mustComplete()
	r.patch(configMaps, r.ns, "a", fmt.Sprintf(`{"metadata":{"annotations":{"lockstep.dev/content-epoch":"%d"}}}`, highest))
	for _, x := range []string{"two", "three"} {
		r.use("1.0.0", configMap("a", "x: "+x))
		if mark := r.survey(); mark.HighestEpoch >= r.content.Epoch {
			r.epoch = mark.HighestEpoch + 1 // as the leader counts
			r.content.Epoch = r.epoch
		}
		r.mustComplete()
		r.mustComplete()
		if n := r.report().Objects.Applied; n != 0 {
			t.Errorf("epoch %d: %d objects were written again without a change", r.epoch, n)
		}
	}
	if r.epoch != highest+2 {
		t.Errorf("got epoch %d, want the leaders to have counted on from %d", r.epoch, int64(highest))
	}
}
