package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/report"
)

var (
	policies = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	bindings = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}
)

func (r *rig) fenceName() string { return "set-fence." + r.ns }

// epochPatch is a merge patch of the content epoch; "null" takes it away.
func epochPatch(epoch string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{"lockstep.dev/content-epoch":%s}}}`, epoch)
}

// probe reports whether the fence works: a patch that lowers the epoch of the
// ConfigMap "a" below 2 is refused. Nothing is changed.
func (r *rig) probe() error {
	_, err := r.api.Resource(configMaps).Namespace(r.ns).Patch(r.t.Context(), "a", types.MergePatchType, []byte(epochPatch(`"1"`)),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// awaitFence waits until the API server knows the fence. The rig needs
// a ConfigMap "a" of content epoch 2 or more.
func (r *rig) awaitFence() {
	r.t.Helper()
	await(r.t, "the fence to be up", func() error {
		if err := r.probe(); !apierrors.IsForbidden(err) {
			return fmt.Errorf("an older epoch: got %w, want 403", err)
		}
		return nil
	})
}

// dropFence takes the fence away and waits until the API server has noticed.
func (r *rig) dropFence() {
	r.t.Helper()
	r.delete(bindings, "", r.fenceName())
	r.delete(policies, "", r.fenceName())
	await(r.t, "the fence to end", r.probe)
}

// newFencedRig has a fence that is up, and a ConfigMap "a" of epoch 3.
func newFencedRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.epoch = 2
	r.use("1.0.0", configMap("a", "x: one"))
	r.mustComplete()
	r.awaitFence()
	return r
}

func TestFence(t *testing.T) {
	r := newFencedRig(t)
	patch := func(contentType types.PatchType, manager, patch string) error {
		_, err := r.api.Resource(configMaps).Namespace(r.ns).Patch(t.Context(), "a", contentType, []byte(patch),
			metav1.PatchOptions{FieldManager: manager, Force: forced(contentType)})
		return err
	}
	apply := func(epoch, x string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","annotations":{%s}},"data":{"x":%q}}`, epoch, x)
	}
	const annotation = `"lockstep.dev/content-epoch":`
	tests := []struct {
		name        string
		contentType types.PatchType
		manager     string
		patch       string
		refused     string // part of the message; empty: it is not
	}{
		{"an apply of an older epoch", types.ApplyYAMLPatchType, "lockstep", apply(annotation+`"2"`, "stale"), "content epoch 3 cannot become 2; leave the annotation"},
		{"an apply of an older epoch that changes nothing else", types.ApplyYAMLPatchType, "lockstep", apply(annotation+`"2"`, "one"), "cannot become 2"},
		{"a write of ours that takes the epoch away", types.MergePatchType, "lockstep", epochPatch("null"), "needs a content epoch"},
		{"a number that has fewer digits", types.MergePatchType, "somebody", epochPatch(`"1"`), "cannot become 1"},
		{"garbage", types.MergePatchType, "somebody", epochPatch(`"many"`), "cannot become what is no number"},
		{"a number in another form", types.MergePatchType, "somebody", epochPatch(`"04"`), "cannot become what is no number"},
		{"a number below 0", types.MergePatchType, "somebody", epochPatch(`"-4"`), "cannot become what is no number"},
		{"the same epoch", types.MergePatchType, "somebody", epochPatch(`"3"`), ""},
		{"something else", types.MergePatchType, "somebody", `{"data":{"y":"theirs"},"metadata":{"labels":{"a":"b"}}}`, ""},
		{"something else, by force", types.ApplyYAMLPatchType, "somebody", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"z":"theirs"}}`, ""},
		{"a newer epoch with more digits", types.ApplyYAMLPatchType, "lockstep", apply(annotation+`"12"`, "new"), ""},
		{"an epoch that is older by then", types.ApplyYAMLPatchType, "lockstep", apply(annotation+`"9"`, "stale"), "content epoch 12 cannot become 9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := r.get(configMaps, r.ns, "a").GetResourceVersion()
			err := patch(tt.contentType, tt.manager, tt.patch)
			if tt.refused == "" {
				if err != nil {
					t.Errorf("got %v, want it to pass", err)
				}
				return
			}
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("got %v, want 403 with %q", err, tt.refused)
			}
			if after := r.get(configMaps, r.ns, "a").GetResourceVersion(); after != before {
				t.Error("the object was changed")
			}
		})
	}
}

// forced is what an apply needs, and nothing else may have.
func forced(contentType types.PatchType) *bool {
	if contentType != types.ApplyYAMLPatchType {
		return nil
	}
	return new(true)
}

// What people and other programs do to objects of the set passes, and no one is
// ever locked out.
func TestFenceLetsPass(t *testing.T) {
	r := newFencedRig(t)
	maps := r.api.Resource(configMaps).Namespace(r.ns)
	replace := func(obj *unstructured.Unstructured) error {
		_, err := maps.Update(t.Context(), obj, metav1.UpdateOptions{})
		return err
	}
	t.Run("a replacement by a manifest without the stamp, which the next pass restores", func(t *testing.T) {
		obj := r.get(configMaps, r.ns, "a")
		obj.SetAnnotations(nil)
		obj.SetManagedFields(nil)
		if err := replace(obj); err != nil {
			t.Fatal(err)
		}
		r.mustComplete()
		if got := r.get(configMaps, r.ns, "a").GetAnnotations()["lockstep.dev/content-epoch"]; got != "3" {
			t.Errorf("got epoch %q after the pass, want 3", got)
		}
	})
	t.Run("a replacement by an older copy is refused, in so many words", func(t *testing.T) {
		obj := r.get(configMaps, r.ns, "a")
		annotations := obj.GetAnnotations()
		annotations["lockstep.dev/content-epoch"] = "2"
		obj.SetAnnotations(annotations)
		if err := replace(obj); !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want 403", err)
		}
	})
	t.Run("garbage in the old annotation", func(t *testing.T) {
		for _, epoch := range []string{"many", "-4", "1e3", "007", "4503599627370497", "9007199254740992", "9007199254740993", "9999999999999999", "9223372036854775807", strings.Repeat("9", 100_000)} {
			r.patch(configMaps, r.ns, "a", epochPatch("null"))
			r.patch(configMaps, r.ns, "a", epochPatch(`"`+epoch+`"`))
			r.patch(configMaps, r.ns, "a", epochPatch(`"other garbage"`))
			r.patch(configMaps, r.ns, "a", epochPatch(`"`+epoch+`"`))
			r.mustComplete()
			if got := r.get(configMaps, r.ns, "a").GetAnnotations()["lockstep.dev/content-epoch"]; got != "3" {
				t.Errorf("epoch %.20q: got %q after the pass, want 3", epoch, got)
			}
		}
	})
	t.Run("objects that are not of the set, whatever they carry", func(t *testing.T) {
		r.create(configMaps, r.ns, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other","annotations":{"lockstep.dev/content-epoch":"7"}}}`)
		r.patch(configMaps, r.ns, "other", epochPatch(`"1"`))
	})
	t.Run("an object that is taken out of the set, and then all", func(t *testing.T) {
		r.patch(configMaps, r.ns, "a", `{"metadata":{"labels":{"applyset.kubernetes.io/part-of":null}}}`)
		r.patch(configMaps, r.ns, "a", epochPatch(`"1"`))
	})
}

// Writes of a status go past the fence: nothing of ours makes any.
func TestFenceAndSubresources(t *testing.T) {
	r := newRig(t)
	r.epoch = 2
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: NS}\nspec: {type: LoadBalancer, ports: [{port: 80}]}\n"
	r.use("1.0.0", configMap("a", "x: one"), service)
	r.mustComplete()
	r.awaitFence()
	api := r.api.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"}).Namespace(r.ns)
	status := `{"metadata":{"annotations":{"lockstep.dev/content-epoch":"1"}},"status":{"loadBalancer":{"ingress":[{"ip":"10.1.2.3"}]}}}`
	if _, err := api.Patch(t.Context(), "s", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Errorf("got %v for a patch of the status, want it to pass", err)
	}
}

// The fence is an object of the set like the others.
func TestFenceIsKept(t *testing.T) {
	r := newFencedRig(t)
	stamps := func() [2]string {
		return [2]string{
			r.get(policies, "", r.fenceName()).GetResourceVersion(),
			r.get(bindings, "", r.fenceName()).GetResourceVersion(),
		}
	}
	first := stamps()
	t.Run("it is not written again with new content, nor by another leader", func(t *testing.T) {
		r.use("1.0.1", configMap("a", "x: two"))
		r.restart()
		r.mustComplete()
		if got := stamps(); got != first {
			t.Errorf("got resourceVersions %v, want %v", got, first)
		}
		for _, gvr := range []schema.GroupVersionResource{policies, bindings} {
			obj := r.get(gvr, "", r.fenceName())
			if obj.GetAnnotations()["lockstep.dev/content-epoch"] != "3" || !strings.HasPrefix(obj.GetLabels()["applyset.kubernetes.io/part-of"], "applyset-") {
				t.Errorf("got %v %v, want a stamp and a label like those of others", obj.GetAnnotations(), obj.GetLabels())
			}
		}
	})
	t.Run("it was written once, and not normalized by the server", func(t *testing.T) {
		if got := r.get(policies, "", r.fenceName()).GetGeneration(); got != 1 {
			t.Errorf("got generation %d, want 1", got)
		}
	})
	t.Run("what another client deletes comes back with the next pass", func(t *testing.T) {
		r.dropFence()
		r.mustComplete()
		r.awaitFence()
	})
	t.Run("what another client weakens is repaired", func(t *testing.T) {
		r.patch(policies, "", r.fenceName(), `{"spec":{"failurePolicy":"Ignore","validations":[{"expression":"true"}]}}`)
		r.patch(bindings, "", r.fenceName(), `{"spec":{"policyName":"other"}}`)
		r.mustComplete()
		if got := len(r.wire.sent("PATCH")); got != fenceObjects {
			t.Errorf("got %d patches, want one of each", got)
		}
		r.restart()
		r.mustComplete()
		if got := r.wire.writes(); len(got) > 0 {
			t.Errorf("got %q by another leader, want none", got)
		}
		r.awaitFence()
	})
	t.Run("an exception that another client makes stays", func(t *testing.T) {
		r.patch(policies, "", r.fenceName(), `{"spec":{"matchConstraints":{"excludeResourceRules":[{"apiGroups":[""],"apiVersions":["*"],"operations":["*"],"resources":["configmaps"]}]}}}`)
		r.mustComplete()
		await(t, "the exception", r.probe)
	})
	t.Run("a bundle that has an object of its name gets a failure", func(t *testing.T) {
		theirs := fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: %s}\nspec: {policyName: x, validationActions: [Audit]}\n", r.fenceName())
		r.use("1.0.2", configMap("a", "x: three"), theirs)
		out, err := r.pass()
		report := r.report()
		if err != nil || out.Complete || len(report.Failures) != 1 || !strings.Contains(report.Failures[0].Message, "is the fence of the set") {
			t.Errorf("got %+v, %v, %+v, want one failure that says whose name that is", out, err, report)
		}
		if got := r.get(bindings, "", r.fenceName()); !strings.Contains(fmt.Sprint(got.Object["spec"]), "Deny") {
			t.Errorf("got %v, want our binding in place", got.Object["spec"])
		}
		if got := r.get(configMaps, r.ns, "a").Object["data"].(map[string]any)["x"]; got != "three" {
			t.Errorf("got x = %v, want the others applied", got)
		}
	})
}

// What an administrator excludes from the fence stays excluded when the leader repairs or
// replaces the rest of the policy, until the administrator ends it.
func TestFence_exclusionsStay(t *testing.T) {
	r := newFencedRig(t)
	exclude := func(rules string) {
		r.patch(policies, "", r.fenceName(), `{"spec":{"matchConstraints":{"excludeResourceRules":`+rules+`}}}`)
	}
	want := func(what string, n int) {
		t.Helper()
		rules, _, _ := unstructured.NestedSlice(r.get(policies, "", r.fenceName()).Object, "spec", "matchConstraints", "excludeResourceRules")
		if len(rules) != n {
			t.Errorf("%s: got excluded %v, want %d rules", what, rules, n)
		}
	}
	k := r.keep()
	exclude(`[{"apiGroups":[""],"apiVersions":["*"],"operations":["*"],"resources":["configmaps"]}]`)
	await(t, "the leader to read the policy", func() error {
		if got := r.wire.sent("GET"); len(got) == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	r.patch(policies, "", r.fenceName(), `{"spec":{"failurePolicy":"Ignore"}}`)
	k.awaitRepairs(1)
	want("after a repair of another field", 1)
	if got := r.wire.writes(); len(got) != 1 {
		t.Errorf("got writes %q, want that of the repair", got)
	}
	if _, err := k.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.mustComplete()
	want("after a pass", 1)

	r.patch(policies, "", r.fenceName(), `{"metadata":{"annotations":{"lockstep.dev/form":"of another program"}}}`)
	for _, o := range r.preview().Objects {
		if strings.Contains(o.Name, "-fence.") && o.Action != report.ActionNone {
			t.Errorf("got %+v in a preview, want no change", o)
		}
	}
	r.use("1.0.1", configMap("a", "x: two"))
	r.restart()
	r.mustComplete()
	if got := r.wire.sent("PATCH"); len(got) != 2 {
		t.Errorf("got patches %q, want the policy's and the ConfigMap's", got)
	}
	want("after an upgrade that replaces the policy", 1)

	exclude("null")
	r.mustComplete()
	if got := r.wire.writes(); len(got) > 0 {
		t.Errorf("got writes %q, want none", got)
	}
	want("after the administrator has ended it", 0)
	r.awaitFence()
}

// allow gives the rig's user rights on resources of a group.
func (r *rig) allow(name, group, resources, verbs string) {
	r.t.Helper()
	rbac := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource}
	}
	r.create(rbac("clusterroles"), "", fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"NS-%s"},`+
		`"rules":[{"apiGroups":[%q],"resources":[%s],"verbs":[%s]}]}`, name, group, resources, verbs))
	r.create(rbac("clusterrolebindings"), "", fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"NS-%[1]s"},`+
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"NS-%[1]s"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"NS-user"}]}`, name))
}

// A user who has every right that the bundle needs, but none on policies.
func TestFenceForbidden(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	r.cfg.RESTConfig.Impersonate.UserName = r.ns + "-user"
	r.restart()
	r.allow("bundle", "", `"configmaps"`, `"*"`)
	var out protocol.Outcome
	await(t, "the user's rights", func() (err error) {
		out, err = r.pass()
		return err
	})
	report := r.report()
	if out.Complete || len(report.Failures) != fenceObjects {
		t.Fatalf("got %+v, %+v, want an incomplete pass that names the objects of the fence", out, report)
	}
	for _, f := range report.Failures {
		if !strings.Contains(f.Message, `cannot list resource "validatingadmissionpolic`) || !strings.Contains(f.Message, "the user needs get, list, watch, create, patch and delete") {
			t.Errorf("got %q, want the right that is missing and all that are needed", f.Message)
		}
	}
	r.get(configMaps, r.ns, "a")
	r.delete(configMaps, r.ns, "set") // without a mark, the survey lists the objects
	if _, err := r.reconciler.Survey(t.Context(), protocol.Work{}, time.Time{}); err == nil || !strings.Contains(err.Error(), "the user needs") {
		t.Errorf("got %v from the survey, want it to name the rights", err)
	}

	r.allow("fence", "admissionregistration.k8s.io", `"validatingadmissionpolicies","validatingadmissionpolicybindings"`, `"get","list","create","patch","delete"`)
	await(t, "the rights that the message asks for", func() error {
		out, err := r.pass()
		if err == nil && !out.Complete {
			err = fmt.Errorf("incomplete: %+v", r.report().Failures)
		}
		return err
	})
}

// Two sets of one name live side by side, in namespaces of their own.
func TestTwoSetsOfOneName(t *testing.T) {
	r := newFencedRig(t)
	other := *r
	other.ns = r.ns + "-other"
	other.create(namespaces, "", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"NS"}}`)
	other.parentNS, other.cfg.Bundle = other.ns, event.New[*bundle.Bundle](nil)
	other.epoch, other.content = 0, protocol.Content{}
	other.restart()
	other.use("1.0.0", configMap("a", "x: one"))
	other.mustComplete()
	if _, err := r.pass(); err != nil || len(r.wire.writes()) > 0 {
		t.Errorf("got %v and writes %q by the first set, want none", err, r.wire.writes())
	}
	other.use("1.0.1", configMap("a", "x: two"))
	other.mustComplete()
}
