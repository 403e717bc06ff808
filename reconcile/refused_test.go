package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	resourceQuotas = schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}
)

// deny makes a policy of somebody's, which refuses in the rig's namespace all
// ConfigMaps with x: bad, and returns when it is in force; lift ends it.
func (r *rig) deny(message string, operations ...string) (lift func()) {
	r.t.Helper()
	name := r.ns + "-theirs"
	r.create(configMaps, r.ns, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"probe"}}`)
	r.create(policies, "", fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":%q},"spec":{
		"matchConstraints":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"NS"}},
			"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["%s"],"resources":["configmaps"]}]},
		"validations":[{"expression":"!has(object.data) || !(\"x\" in object.data) || object.data.x != \"bad\"","message":%q}]}}`,
		name, strings.Join(operations, `","`), message))
	r.create(bindings, "", fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":%q},
		"spec":{"policyName":%q,"validationActions":["Deny"]}}`, name, name))
	probe := func() error {
		_, err := r.api.Resource(configMaps).Namespace(r.ns).Patch(r.t.Context(), "probe", "application/merge-patch+json",
			[]byte(`{"data":{"x":"bad"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
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
		await(r.t, "the policy to be gone", probe)
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

// What the admission refuses, a policy or a quota, is told in its own words. All
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
	await(t, "the quota to be gone", func() error {
		if out, err := r.pass(); err != nil || !out.Complete {
			return fmt.Errorf("got %+v, %w, %+v", out, err, r.report().Failures)
		}
		return nil
	})
	r.wantGone(configMaps, r.ns, "dropped")
}
