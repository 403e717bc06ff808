package reconcile_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/internal/kube"
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

// The fence lets the leader remove a forged stamp. Where the API server refuses it
// all the same, the object is deleted and created again, if its manifest and its
// kind allow that; otherwise it fails, and stays.
func TestForgedEpochThatCannotBeRemoved(t *testing.T) {
	const refusal, condition = "annotations are not yours to remove", "request.options.?fieldManager.orValue('') != 'lockstep-repair'"
	choose := func(choice string) string {
		return strings.Replace(configMap("a", "x: one"), "metadata: {", "metadata: {annotations: {lockstep.dev/recreate: "+choice+"}, ", 1)
	}
	forged := func(t *testing.T, manifest string) (r *rig, uid types.UID) {
		r = newRig(t)
		r.use("1.0.0", manifest)
		r.mustComplete()
		r.patch(configMaps, r.ns, "a", epochPatch("null"))
		r.patch(configMaps, r.ns, "a", epochPatch(`"7"`))
		return r, r.get(configMaps, r.ns, "a").GetUID()
	}
	wantRecreated := func(t *testing.T, r *rig, uid types.UID) {
		t.Helper()
		if out := r.mustComplete(); out.HighestEpoch != r.epoch {
			t.Errorf("got %+v, want the epoch at %d", out, r.epoch)
		}
		obj := r.get(configMaps, r.ns, "a")
		if got := obj.GetAnnotations()["lockstep.dev/content-epoch"]; got != "1" || obj.GetUID() == uid {
			t.Errorf("got epoch %s, recreated %t, want our epoch on a new object", got, obj.GetUID() != uid)
		}
		if got := r.wire.sent("DELETE"); len(got) != 1 {
			t.Errorf("got deletions %q, want one", got)
		}
		if r.mustComplete(); len(r.wire.writes()) > 0 {
			t.Errorf("got writes %q by another pass, want none", r.wire.writes())
		}
	}
	t.Run("by a policy, and the manifest allows it", func(t *testing.T) {
		r, uid := forged(t, choose("enabled"))
		r.denyUnless(condition, kube.RepairManager, refusal, "UPDATE")
		wantRecreated(t, r, uid)
	})
	t.Run("by a policy", func(t *testing.T) {
		r, uid := forged(t, configMap("a", "x: one"))
		lift := r.denyUnless(condition, kube.RepairManager, refusal, "UPDATE")
		if out, err := r.pass(); err != nil || out.Complete || out.HighestEpoch != r.epoch {
			t.Errorf("got %+v, %v, want an incomplete pass, and no higher epoch", out, err)
		}
		r.wantFailure(t, `ConfigMap "`+r.ns+`/a"`, refusal)
		if obj := r.get(configMaps, r.ns, "a"); obj.GetUID() != uid || obj.GetAnnotations()["lockstep.dev/content-epoch"] != "7" {
			t.Errorf("got %v, want the object as it was", obj.GetAnnotations())
		}
		lift()
		r.mustComplete()
		if obj := r.get(configMaps, r.ns, "a"); obj.GetUID() != uid || obj.GetAnnotations()["lockstep.dev/content-epoch"] != "1" {
			t.Errorf("got %v after the policy was removed, want the stamp repaired", obj.GetAnnotations())
		}
	})
	invalid := func(req *http.Request, _ http.RoundTripper) (*http.Response, error) {
		text := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"the object is not valid any more"}`
		return &http.Response{
			StatusCode: http.StatusUnprocessableEntity, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: req,
		}, nil
	}
	repairs := func(req *http.Request) bool { return req.URL.Query().Get("fieldManager") == kube.RepairManager }
	t.Run("by the API", func(t *testing.T) {
		r, uid := forged(t, configMap("a", "x: one"))
		r.wire.once(repairs, invalid)
		wantRecreated(t, r, uid)
	})
	t.Run("by the API, and the manifest forbids it", func(t *testing.T) {
		r, uid := forged(t, choose("disabled"))
		r.wire.once(repairs, invalid)
		if out, err := r.pass(); err != nil || out.Complete {
			t.Errorf("got %+v, %v, want an incomplete pass", out, err)
		}
		r.wantFailure(t, `ConfigMap "`+r.ns+`/a"`, "not valid any more")
		if obj := r.get(configMaps, r.ns, "a"); obj.GetUID() != uid {
			t.Error("the object was recreated")
		}
		r.mustComplete()
	})
}
