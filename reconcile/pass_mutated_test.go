package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mutate makes a mutating policy of another writer, which sets a field of the
// ConfigMaps "a" and "b" in the rig's namespace, and waits until it works.
func (r *rig) mutate() (end func()) {
	r.t.Helper()
	group := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	gvrs := []schema.GroupVersionResource{group.WithResource("mutatingadmissionpolicybindings"), group.WithResource("mutatingadmissionpolicies")}
	name := "mutate-" + r.ns
	r.create(gvrs[1], "", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{"name":"`+name+`"},"spec":{
		"matchConstraints":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"NS"}},
			"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["configmaps"]}]},
		"matchConditions":[{"name":"some","expression":"object.metadata.name in ['a', 'b']"}],
		"failurePolicy":"Fail","reinvocationPolicy":"Never",
		"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: \"replace\", path: \"/data/x\", value: \"theirs\"}]"}}]}}`)
	r.create(gvrs[0], "", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicyBinding","metadata":{"name":"`+name+`"},"spec":{"policyName":"`+name+`"}}`)
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		for _, gvr := range gvrs {
			_ = r.api.Resource(gvr).Delete(context.WithoutCancel(r.t.Context()), name, metav1.DeleteOptions{})
		}
	}
	r.t.Cleanup(end)
	return end
}

// probeMutation returns nil where the policy is as wanted.
func (r *rig) probeMutation(works bool) error {
	obj := r.parse(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"probe"}}`)
	made, err := r.api.Resource(configMaps).Namespace(r.ns).Create(r.t.Context(), obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	if got, _, _ := nestedString(made, "data", "x"); works != (got == "theirs") {
		return errors.New("not yet")
	}
	return nil
}

// What a mutating admission makes of an object is not what the bundle wants,
// although the API server accepted the write.
func TestMutatedByAdmission(t *testing.T) {
	r := newRig(t)
	end := r.mutate()
	await(t, "the policy to work", func() error { return r.probeMutation(true) })
	const optional = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: NS, annotations: {lockstep.dev/required: \"false\"}}\ndata: {x: one}\n"
	wantFailure := func(name string) {
		t.Helper()
		got := r.report()
		if len(got.Failures) != 1 || !strings.Contains(got.Failures[0].Object, "/"+name) || !strings.HasPrefix(got.Failures[0].Message, "changed by admission: .data.x ") {
			t.Errorf("got %+v, want one failure that names the field", got.Failures)
		}
	}
	t.Run("an object that is created holds DONE back", func(t *testing.T) {
		r.use("1.0.0", configMap("a", "x: one"), configMap("other", "x: one"))
		if out, err := r.pass(); err != nil || out.Complete {
			t.Errorf("got %+v, %v, want an incomplete pass", out, err)
		}
		wantFailure("a")
	})
	t.Run("another leader finds the same", func(t *testing.T) {
		r.restart()
		for range 2 {
			if out, err := r.pass(); err != nil || out.Complete {
				t.Errorf("got %+v, %v, want an incomplete pass", out, err)
			}
			wantFailure("a")
		}
	})
	t.Run("a field that is changed", func(t *testing.T) {
		r.use("1.0.1", configMap("a", "x: two"), configMap("other", "x: one"))
		if out, err := r.pass(); err != nil || out.Complete {
			t.Errorf("got %+v, %v, want an incomplete pass", out, err)
		}
		wantFailure("a")
	})
	t.Run("an object that is not required is named alone", func(t *testing.T) {
		r.use("1.0.2", optional, configMap("other", "x: one"))
		r.mustComplete()
		wantFailure("b")
	})
	t.Run("when the policy has ended, all is in place", func(t *testing.T) {
		end()
		await(t, "the policy to end", func() error {
			r.use("1.0.3", optional, configMap("other", "x: one"))
			if _, err := r.pass(); err != nil {
				return err
			}
			if got := r.report(); len(got.Failures) > 0 {
				return fmt.Errorf("got %+v", got.Failures)
			}
			return nil
		})
		if got, _, _ := nestedString(r.get(configMaps, r.ns, "b"), "data", "x"); got != "one" {
			t.Errorf("got x: %s", got)
		}
	})
}
