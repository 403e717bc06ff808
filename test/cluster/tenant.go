package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// TenantPause makes 50 requests in a second.
const TenantPause = 20 * time.Millisecond

// tenantName is the name of the user, and of the namespace.
const tenantName = "tenant"

// TenantEpochs are content epochs that a tenant may think of.
var TenantEpochs = []string{"1000", "4503599627370496", "9007199254740992", "9223372036854775807", "garbage", "2"}

// Tenant is a user with the rights of an editor in the namespace "tenant", who gives
// ServiceAccounts all that Lockstep writes on objects. Its methods may be called
// from many goroutines, except Learn.
type Tenant struct {
	admin, own       dynamic.Interface
	label            string // of the set
	accepted, denied atomic.Int64
}

// NewTenant creates the namespace and the user's rights.
func NewTenant(ctx context.Context, admin *rest.Config) (*Tenant, error) {
	cfg := rest.CopyConfig(admin)
	cfg.Impersonate.UserName = tenantName
	cfg.QPS = -1
	x := &Tenant{}
	var err, own error
	x.admin, err = dynamic.NewForConfig(admin)
	x.own, own = dynamic.NewForConfig(cfg)
	if err := errors.Join(err, own); err != nil {
		return nil, err
	}
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	return x, errors.Join(
		x.make(ctx, namespaces, "", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"tenant"}}`),
		x.allow(ctx, tenantName, "edit", `{"apiGroups":[""],"resources":["serviceaccounts"],"verbs":["*"]}`),
	)
}

// PassFence gives the tenant the right that the fence asks for, so that only what
// the leader believes is left to protect the set. The right takes effect a moment
// later.
func (x *Tenant) PassFence(ctx context.Context) error {
	return x.allow(ctx, "kube-system", "parent", `{"apiGroups":[""],"resources":["configmaps"],"resourceNames":["lockstep"],"verbs":["update"]}`)
}

// allow gives the tenant a right in a namespace.
func (x *Tenant) allow(ctx context.Context, ns, name, rule string) error {
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	return errors.Join(
		x.make(ctx, rbac.WithResource("roles"), ns, fmt.Sprintf(
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":%q},"rules":[%s]}`, name, rule)),
		x.make(ctx, rbac.WithResource("rolebindings"), ns, fmt.Sprintf(
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":%[1]q},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":%[1]q},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"tenant"}]}`, name)),
	)
}

func (x *Tenant) make(ctx context.Context, gvr schema.GroupVersionResource, ns, text string) error {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		return err
	}
	_, err := x.admin.Resource(gvr).Namespace(ns).Create(ctx, obj, metav1.CreateOptions{})
	return err
}

// Learn reads the label of the set, as any user can.
func (x *Tenant) Learn(ctx context.Context) error {
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	obj, err := x.admin.Resource(maps).Namespace("kube-system").Get(ctx, "lockstep", metav1.GetOptions{})
	if err != nil {
		return err
	}
	x.label = obj.GetLabels()["applyset.kubernetes.io/id"]
	return nil
}

// AwaitFence returns nil if the fence refuses the tenant, who has the rights of an
// editor.
func (x *Tenant) AwaitFence(ctx context.Context) error {
	err := x.Create(ctx, "probe", "7", nil, metav1.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "belong to Lockstep") {
		return fmt.Errorf("got %v", err) //nolint:errorlint // it may be nil
	}
	return nil
}

// Create creates a ServiceAccount with the set's label, a content epoch and more
// data.
func (x *Tenant) Create(ctx context.Context, name, epoch string, data []byte, dryRun ...string) error {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount"}}
	obj.SetName(name)
	obj.SetLabels(map[string]string{"applyset.kubernetes.io/part-of": x.label})
	annotations := map[string]string{
		"lockstep.dev/content-epoch": epoch, "lockstep.dev/form": "x",
		"lockstep.dev/release": "9.0.0", "lockstep.dev/min-apiserver-release": "9.0.0",
	}
	if data != nil {
		annotations["tenant/data"] = base64.StdEncoding.EncodeToString(data)
	}
	obj.SetAnnotations(annotations)
	_, err := x.accounts(x.own).Create(ctx, obj, metav1.CreateOptions{FieldManager: "lockstep", DryRun: dryRun})
	return err
}

func (x *Tenant) accounts(as dynamic.Interface) dynamic.ResourceInterface {
	return as.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(tenantName)
}

// Work creates, patches and deletes ServiceAccounts, one request each TenantPause,
// until ctx ends.
func (x *Tenant) Work(ctx context.Context) error {
	tick := time.NewTicker(TenantPause)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := x.disturb(ctx, i)
		switch {
		case err == nil:
			x.accepted.Add(1)
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
			x.denied.Add(1)
		case ctx.Err() == nil:
			return fmt.Errorf("request %d of the tenant: %w", i, err)
		}
	}
}

// disturb sends the i-th request.
func (x *Tenant) disturb(ctx context.Context, i int) error {
	name, epoch := fmt.Sprintf("busy-%d", i/3%7), TenantEpochs[i%len(TenantEpochs)]
	switch i % 3 {
	case 0:
		return x.Create(ctx, name, epoch, nil)
	case 1:
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"lockstep.dev/content-epoch":%q,"lockstep.dev/prune":"enabled"}}}`, epoch)
		manager := []string{"lockstep", "kubectl"}[i/3%2]
		_, err := x.accounts(x.own).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager})
		return err
	}
	return x.accounts(x.own).Delete(ctx, name, metav1.DeleteOptions{})
}

// LowerEpoch asks, with all rights, that the ConfigMap default/platform of the set gets
// a content epoch, and returns the answer.
func (x *Tenant) LowerEpoch(ctx context.Context, epoch string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"lockstep.dev/content-epoch":%q}}}`, epoch)
	maps := x.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	_, err := maps.Namespace("default").Patch(ctx, "platform", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl"})
	return err
}

// Accepted returns how many requests of Work were accepted.
func (x *Tenant) Accepted() int64 { return x.accepted.Load() }

// Answered returns how many requests of Work were answered.
func (x *Tenant) Answered() int64 { return x.accepted.Load() + x.denied.Load() }

// Objects returns the tenant's objects.
func (x *Tenant) Objects(ctx context.Context) ([]unstructured.Unstructured, error) {
	list, err := x.accounts(x.admin).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
