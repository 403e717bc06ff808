package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/report"
)

var (
	resourceQuotas = schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}
	services       = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	storageClasses = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}
)

// deny makes a policy of another client, which refuses in the rig's namespace all
// ConfigMaps with x: bad, and returns when it is in force; lift ends it.
func (r *rig) deny(message string, operations ...string) (lift func()) {
	r.t.Helper()
	return r.denyUnless(`!has(object.data) || !("x" in object.data) || object.data.x != "bad"`, "", message, operations...)
}

// denyUnless is deny for another condition, which a field manager's requests with
// x: bad do not meet.
func (r *rig) denyUnless(condition, manager, message string, operations ...string) (lift func()) {
	r.t.Helper()
	name := r.ns + "-theirs"
	r.create(configMaps, r.ns, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"probe"}}`)
	r.create(policies, "", fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":%q},"spec":{
		"matchConstraints":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"NS"}},
			"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["%s"],"resources":["configmaps"]}]},
		"validations":[{"expression":%q,"message":%q}]}}`,
		name, strings.Join(operations, `","`), condition, message))
	r.create(bindings, "", fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":%q},
		"spec":{"policyName":%q,"validationActions":["Deny"]}}`, name, name))
	probe := func() error {
		_, err := r.api.Resource(configMaps).Namespace(r.ns).Patch(r.t.Context(), "probe", "application/merge-patch+json",
			[]byte(`{"data":{"x":"bad"}}`), metav1.PatchOptions{FieldManager: manager, DryRun: []string{metav1.DryRunAll}})
		return err
	}
	await(r.t, "the policy to be in force", func() error {
		if err := probe(); err == nil || !strings.Contains(err.Error(), message) {
			return fmt.Errorf("got %w, want %q", err, message)
		}
		return nil
	})
	remove := sync.OnceFunc(func() {
		ctx := context.WithoutCancel(r.t.Context()) // the test may be over
		err := errors.Join(
			r.api.Resource(bindings).Delete(ctx, name, metav1.DeleteOptions{}),
			r.api.Resource(policies).Delete(ctx, name, metav1.DeleteOptions{}))
		if err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(remove)
	return func() {
		remove()
		await(r.t, "the policy to end", probe)
	}
}

// wantFailure fails the test unless the object failed, with all of the words in
// the message.
func (r *rig) wantFailure(t *testing.T, object string, words ...string) {
	t.Helper()
	for _, f := range r.report().Failures {
		if f.Object != object {
			continue
		}
		for _, w := range words {
			if !strings.Contains(f.Message, w) {
				t.Errorf("%s: got %q, want %q in it", object, f.Message, w)
			}
		}
		return
	}
	t.Errorf("got %+v, want a failure of %s", r.report().Failures, object)
}

// What the admission refuses, a policy or a quota, is reported in its own words. All
// else goes on; what the bundle dropped stays, and so does DONE.
func TestRefusedByAdmission(t *testing.T) {
	r := newRig(t)
	lift := r.deny("x must not be bad, ask team-a", "CREATE", "UPDATE")
	r.create(resourceQuotas, r.ns, `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"none"},"spec":{"hard":{"services":"0"}}}`)
	// A controller of a whole cluster writes this.
	_, err := r.api.Resource(resourceQuotas).Namespace(r.ns).Patch(t.Context(), "none", "application/merge-patch+json",
		[]byte(`{"status":{"hard":{"services":"0"},"used":{"services":"0"}}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: NS}\nspec: {clusterIP: None, ports: [{port: 80}]}\n"
	r.use("1.0.0", configMap("changed", "x: one"), configMap("dropped", "x: one"))
	r.mustComplete()
	r.use("1.0.1", configMap("changed", "x: bad"), configMap("created", "x: bad"), configMap("good", "x: one"), service, clusterRole)
	await(t, "the quota to be in force", func() error {
		out, err := r.pass()
		if err != nil || out.Complete || out.Owed != 1 {
			return fmt.Errorf("got %+v, %w, want an incomplete pass that owes one", out, err)
		}
		if got := r.report().TotalFailures; got != 3 {
			return fmt.Errorf("got %d failures", got)
		}
		return nil
	})
	for _, name := range []string{"changed", "created"} {
		r.wantFailure(t, `ConfigMap "`+r.ns+`/`+name+`"`, "x must not be bad, ask team-a", "ValidatingAdmissionPolicy '"+r.ns+"-theirs'")
	}
	r.wantFailure(t, `Service "`+r.ns+`/s"`, "exceeded quota: none, requested: services=1, used: services=0, limited: services=0")
	r.get(configMaps, r.ns, "good")
	r.get(clusterRoles, "", r.ns+"-r")
	r.get(configMaps, r.ns, "dropped")

	lift()
	r.delete(resourceQuotas, r.ns, "none")
	await(t, "the quota to end", func() error {
		if out, err := r.pass(); err != nil || !out.Complete {
			return fmt.Errorf("got %+v, %w, %+v", out, err, r.report().Failures)
		}
		return nil
	})
	r.wantGone(configMaps, r.ns, "dropped")
}

// A policy is there to be obeyed: that its words sound like an immutable field is
// no reason to delete the object and create it as wanted.
func TestPoliciesAreNotCircumvented(t *testing.T) {
	enabled := strings.Replace(configMap("a", "x: bad"), "metadata: {", "metadata: {annotations: {lockstep.dev/recreate: enabled}, ", 1)
	t.Run("unasked", func(t *testing.T) {
		r := newRig(t)
		r.use("1.0.0", configMap("a", "x: one"))
		r.mustComplete()
		uid := r.get(configMaps, r.ns, "a").GetUID()
		r.deny("x is immutable once set", "UPDATE")
		r.use("1.0.1", configMap("a", "x: bad"))
		if p := find(t, r.preview(), "a"); p.Action != report.ActionFail || !strings.Contains(p.Message, "lockstep.dev/recreate: enabled") {
			t.Errorf("got a preview of %+v, want it to fail", p)
		}
		if out, err := r.pass(); err != nil || out.Complete {
			t.Errorf("got %+v, %v, want an incomplete pass", out, err)
		}
		r.wantFailure(t, `ConfigMap "`+r.ns+`/a"`, "x is immutable once set", "lockstep.dev/recreate: enabled")
		if got := r.get(configMaps, r.ns, "a").GetUID(); got != uid {
			t.Error("the object was recreated")
		}
		r.use("1.0.2", enabled)
		if p := find(t, r.preview(), "a"); p.Action != report.ActionRecreate {
			t.Errorf("got a preview of %+v, want it recreated", p)
		}
		r.mustComplete()
		if got := r.get(configMaps, r.ns, "a").GetUID(); got == uid {
			t.Error("the object was not recreated although its annotation asks for it")
		}
	})
	t.Run("to lose the object", func(t *testing.T) {
		r := newRig(t)
		r.use("1.0.0", configMap("a", "x: one"))
		r.mustComplete()
		uid := r.get(configMaps, r.ns, "a").GetUID()
		r.deny("updates to x are forbidden", "CREATE", "UPDATE")
		r.use("1.0.1", enabled)
		if out, err := r.pass(); err != nil || out.Complete {
			t.Errorf("got %+v, %v, want an incomplete pass", out, err)
		}
		r.wantFailure(t, `ConfigMap "`+r.ns+`/a"`, "updates to x are forbidden")
		if got := r.get(configMaps, r.ns, "a").GetUID(); got != uid {
			t.Error("the object was deleted")
		}
	})
}

// An object is not deleted to be created again where the API would refuse that,
// too: there would be none until a user fixes the bundle.
func TestNothingIsDeletedForNothing(t *testing.T) {
	class := func(provisioner, reclaim string) string {
		return fmt.Sprintf("apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: NS-c}\nprovisioner: %s\nreclaimPolicy: %s\n", provisioner, reclaim)
	}
	r := newRig(t)
	r.use("1.0.0", class("one.test", "Delete"))
	r.mustComplete()
	uid := r.get(storageClasses, "", r.ns+"-c").GetUID()

	r.use("1.0.1", class("two.test", "Keep"))
	if p := find(t, r.preview(), r.ns+"-c"); p.Action != report.ActionFail || !strings.Contains(p.Message, `"Keep"`) {
		t.Errorf("got a preview of %+v, want it to fail", p)
	}
	if out, err := r.pass(); err != nil || out.Complete {
		t.Errorf("got %+v, %v, want an incomplete pass", out, err)
	}
	r.wantFailure(t, `StorageClass "`+r.ns+`-c"`, `reclaimPolicy: Unsupported value: "Keep"`, "it was not deleted to create it again")
	if got := r.get(storageClasses, "", r.ns+"-c").GetUID(); got != uid {
		t.Error("the object was deleted")
	}

	r.use("1.0.2", class("two.test", "Retain"))
	r.mustComplete()
	if got := r.get(storageClasses, "", r.ns+"-c").Object["provisioner"]; got != "two.test" {
		t.Errorf("got provisioner %v", got)
	}
}

// What the object in the way holds itself, an address or the only place of its
// kind, is free once it is deleted.
func TestRecreateOfWhatIsUnique(t *testing.T) {
	r := newRig(t)
	manifests := func(value int, ip string) []string {
		return []string{
			fmt.Sprintf("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-default}\nvalue: %d\nglobalDefault: true\n", value),
			fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: NS}\nspec: {type: NodePort, clusterIP: %s, ports: [{port: 80, nodePort: 30077}]}\n", ip),
		}
	}
	r.use("1.0.0", manifests(0, fixedIP(3))...)
	r.mustComplete()
	t.Cleanup(func() { // one for all pods of all tests
		ctx := context.WithoutCancel(t.Context())
		if err := r.api.Resource(priorityClasses).Delete(ctx, r.ns+"-default", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	r.use("1.0.1", manifests(1, fixedIP(4))...)
	for _, name := range []string{r.ns + "-default", "s"} {
		if p := find(t, r.preview(), name); p.Action != report.ActionRecreate {
			t.Errorf("got a preview of %s %s (%s), want it recreated", p, p.Action, p.Message)
		}
	}
	var late sync.Once // the API server sees the deletion after the first creation
	r.wire.setFault(func(req *http.Request, next http.RoundTripper) (resp *http.Response, err error) {
		if req.Method == http.MethodPost && !req.URL.Query().Has("dryRun") && strings.HasSuffix(req.URL.Path, "/priorityclasses") {
			late.Do(func() {
				resp = answer(http.StatusForbidden, "Forbidden", "PriorityClass x is already marked as default")
			})
		}
		if resp != nil {
			return resp, nil
		}
		return next.RoundTrip(req)
	})
	defer r.wire.setFault(nil)
	r.mustComplete()
	if got := r.get(services, r.ns, "s").Object["spec"].(map[string]any)["clusterIP"]; got != fixedIP(4) {
		t.Errorf("got clusterIP %v", got)
	}
}
