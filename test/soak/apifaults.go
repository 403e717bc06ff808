package soak

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// healingTime is the limit for the end of a fault in the API. It also counts after
// the run: an API that stays broken would hold the end back.
const healingTime = 60 * time.Second

// denyWrites lets an admission policy of a user deny all writes of an object, or
// its deletion, for a while.
func (w *world) denyWrites(ctx context.Context, f fault) outcome {
	k := keptObjects[f.object]
	operations := []any{"CREATE", "UPDATE"}
	if f.how%2 == 0 {
		operations = []any{"DELETE"}
	}
	w.mu.Lock()
	w.edits++
	name := fmt.Sprintf("soak-deny-%d", w.edits)
	w.mu.Unlock()
	policy, binding := denial(name, k, operations)
	return w.withPolicy(ctx, policy, binding, f.lasts)
}

// mutateWrites lets an admission policy of a user change all writes of a ConfigMap
// for a while.
func (w *world) mutateWrites(ctx context.Context, f fault) outcome {
	k := keptObjects[f.object]
	if k.kind != "ConfigMap" {
		return skipped
	}
	w.mu.Lock()
	w.edits++
	name := fmt.Sprintf("soak-change-%d", w.edits)
	w.mu.Unlock()
	policy := admission("MutatingAdmissionPolicy", name, map[string]any{
		"matchConstraints":   map[string]any{"resourceRules": []any{ruleFor(k, []any{"CREATE", "UPDATE"})}},
		"reinvocationPolicy": "Never",
		"failurePolicy":      "Fail",
		"mutations": []any{map[string]any{
			"patchType":          "ApplyConfiguration",
			"applyConfiguration": map[string]any{"expression": `Object{data: {"form": "changed by a policy"}}`},
		}},
	})
	binding := admission("MutatingAdmissionPolicyBinding", name, map[string]any{"policyName": name})
	return w.withPolicy(ctx, policy, binding, f.lasts)
}

// withPolicy creates a policy and its binding for a while.
func (w *world) withPolicy(ctx context.Context, policy, binding *unstructured.Unstructured, d time.Duration) outcome {
	name := policy.GetName()
	if _, err := w.resource(policy.GetKind(), "").Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		w.logf("create %s: %v", policy.GetKind(), err)
		return skipped // and if it exists, it is not bound
	}
	_, err := w.resource(binding.GetKind(), "").Create(ctx, binding, metav1.CreateOptions{})
	if err == nil {
		pause(ctx, d)
	}
	w.untilDone(ctx, "remove the policy "+name, func(ctx context.Context) error {
		for _, kind := range []string{binding.GetKind(), policy.GetKind()} {
			err := w.resource(kind, "").Delete(ctx, name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return skipped
	}
	return done
}

func ruleFor(k kept, operations []any) map[string]any {
	gvr := resources[k.kind]
	return map[string]any{
		"apiGroups": []any{gvr.Group}, "apiVersions": []any{gvr.Version}, "resources": []any{gvr.Resource},
		"operations": operations, "resourceNames": []any{k.name},
	}
}

// denial is a policy that denies operations on an object, and its binding.
func denial(name string, k kept, operations []any) (policy, binding *unstructured.Unstructured) {
	policy = admission("ValidatingAdmissionPolicy", name, map[string]any{
		"matchConstraints": map[string]any{"resourceRules": []any{ruleFor(k, operations)}},
		"validations":      []any{map[string]any{"expression": "false", "message": "denied by the soak"}},
	})
	binding = admission("ValidatingAdmissionPolicyBinding", name, map[string]any{
		"policyName": name, "validationActions": []any{"Deny"},
	})
	return policy, binding
}

func admission(kind, name string, spec map[string]any) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "spec": spec,
	}}
	out.SetName(name)
	return out
}

// untilDone repeats something until it succeeds, also after ctx ended.
func (w *world) untilDone(ctx context.Context, what string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healingTime)
	defer cancel()
	for {
		err := do(ctx)
		if err == nil {
			return
		}
		if !pause(ctx, 200*time.Millisecond) {
			w.logf("%s: %v", what, err)
			return
		}
	}
}

// dropNamespace deletes the namespace of the bundles with all that is in it. The
// soak acts as the namespace controller of a cluster.
func (w *world) dropNamespace(ctx context.Context) outcome {
	live, err := w.resource("Namespace", "").Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return skipped
	}
	if w.deleteObject(ctx, w.resource("Namespace", ""), live) == skipped {
		// It may be deleted nevertheless, and would never end.
		pause(ctx, landing)
	}
	gone := false
	w.untilDone(ctx, "finish the namespace", func(ctx context.Context) error {
		gone, err = w.finishNamespace(ctx, live)
		return err
	})
	if !gone {
		return skipped
	}
	return done
}

// dropDefinition deletes a CRD, and with it all objects of its kind. kube-apiserver
// deletes these, and then the CRD.
func (w *world) dropDefinition(ctx context.Context) outcome {
	api := w.resource("CustomResourceDefinition", "")
	live, err := api.Get(ctx, "widgets."+widgetGroup, metav1.GetOptions{})
	if err != nil {
		return skipped
	}
	if w.deleteObject(ctx, api, live) == skipped {
		// It may be deleted nevertheless.
		pause(ctx, landing)
	}
	result := done
	w.untilDone(ctx, "finish the CRD", func(ctx context.Context) error {
		now, err := w.resource("CustomResourceDefinition", "").Get(ctx, live.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && now.GetUID() != live.GetUID():
			return nil
		case err != nil:
			return err
		case now.GetDeletionTimestamp() == nil:
			result = skipped // it was not deleted
			return nil
		}
		return fmt.Errorf("the CRD still has the finalizers %q", now.GetFinalizers())
	})
	return result
}

// finishNamespace deletes the objects in a namespace that is being deleted, and the namespace.
// It reports whether the old namespace is deleted: the current one may be new.
func (w *world) finishNamespace(ctx context.Context, was *unstructured.Unstructured) (bool, error) {
	live, err := w.resource("Namespace", "").Get(ctx, namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, err
	case live.GetUID() != was.GetUID():
		return true, nil
	case live.GetDeletionTimestamp() == nil:
		return false, nil // it was not deleted
	}
	inside, err := w.resource("ConfigMap", namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for i := range inside.Items {
		w.deleteObject(ctx, w.resource("ConfigMap", namespace), &inside.Items[i])
	}
	if len(inside.Items) > 0 {
		return false, fmt.Errorf("the namespace has %d objects", len(inside.Items))
	}
	live.Object["spec"] = map[string]any{"finalizers": []any{}}
	_, err = w.resource("Namespace", "").Update(ctx, live, metav1.UpdateOptions{}, "finalize")
	return err == nil, err
}
