package soak

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

const (
	tenantNamespace = "tenant"
	tenantUser      = "soak-tenant"
	tenantPause     = 20 * time.Millisecond
)

// asTenant is a client of a user who may edit one namespace.
func asTenant(admin *rest.Config) (dynamic.Interface, error) {
	cfg := rest.CopyConfig(admin)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: tenantUser, Groups: []string{"system:authenticated"}}
	return dynamic.NewForConfig(cfg)
}

// admitTenant lets the tenant edit its namespace.
func (w *world) admitTenant(ctx context.Context) error {
	rules := []any{map[string]any{
		"apiGroups": []any{""}, "resources": []any{"configmaps"},
		"verbs": []any{"get", "list", "create", "update", "patch", "delete"},
	}}
	role := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": rules}
	binding := map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": tenantUser}},
	}
	for _, obj := range []map[string]any{{"apiVersion": "v1", "kind": "Namespace"}, role, binding} {
		o, ns := &unstructured.Unstructured{Object: obj}, tenantNamespace
		o.SetName("tenant")
		if o.GetKind() == "Namespace" {
			ns = ""
		}
		if _, err := w.resource(o.GetKind(), ns).Create(ctx, o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("admit the tenant: %w", err)
		}
	}
	return nil
}

// disturbAsTenant creates, changes and deletes objects that look like those of the
// set, many times a second. Some of these requests are refused.
func (w *world) disturbAsTenant(ctx context.Context, f fault) outcome {
	through := w.nodes[f.node].server
	if w.admitTenant(ctx) != nil || through.tenant == nil {
		return skipped
	}
	api := through.tenant.Resource(resources["ConfigMap"]).Namespace(tenantNamespace)
	limited, cancel := context.WithTimeout(ctx, f.lasts)
	defer cancel()
	accepted := 0
	for i := f.how; pause(limited, tenantPause); i++ {
		if w.disturb(limited, api, i) == nil {
			accepted++
		}
	}
	if accepted == 0 {
		return skipped
	}
	return done
}

// claims are what a tenant writes into its objects.
var claims = []string{"1", "4503599627370496", "9007199254740993", "9223372036854775807", "-1", "garbage"}

func (w *world) disturb(ctx context.Context, api dynamic.ResourceInterface, i int) error {
	name := fmt.Sprintf("tenant-%d", i%7)
	if i%5 == 4 {
		live, err := api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		w.rec.deletes(string(live.GetUID()))
		return api.Delete(ctx, name, metav1.DeleteOptions{})
	}
	w.mu.Lock()
	w.edits++
	edit := strconv.Itoa(w.edits)
	w.mu.Unlock()
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"n": edit}}}
	obj.SetName(name)
	obj.SetAnnotations(map[string]string{
		editAnnotation: edit, "lockstep.dev/content-epoch": claims[i%len(claims)], "lockstep.dev/release": "9.0.0",
	})
	if i%3 == 0 {
		obj.SetAnnotations(map[string]string{editAnnotation: edit}) // an honest one
	} else if parent, err := w.resource("ConfigMap", "kube-system").Get(ctx, "lockstep", metav1.GetOptions{}); err == nil {
		obj.SetLabels(map[string]string{"applyset.kubernetes.io/part-of": parent.GetLabels()["applyset.kubernetes.io/id"]})
	}
	if i%2 == 0 {
		_, err := api.Create(ctx, obj, metav1.CreateOptions{FieldManager: "lockstep"})
		return err
	}
	_, err := api.Update(ctx, obj, metav1.UpdateOptions{FieldManager: "lockstep"})
	return err
}
