package cluster

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// TenantNamespace contains the objects of tenants.
const TenantNamespace = tenantName

// tenantName is the name of the user, and of the namespace.
const tenantName = "tenant"

// tenantData is the annotation with the data of an object.
const tenantData = "tenant/data"

// TenantEpochs are content epochs that a tenant may think of.
var TenantEpochs = []string{"1000", "4503599627370496", "9007199254740992", "9223372036854775807", "garbage", "2"}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// TenantConfig configures a tenant.
type TenantConfig struct {
	Kind string // of its objects: ConfigMap, or ServiceAccount if it is empty
	// Annotations returns more annotations for each write of Disturb; nil: none.
	Annotations func() map[string]string
	// Deletes gets the UID of each object that Disturb is about to delete; nil: nothing
	// asks for it.
	Deletes func(uid string)
}

// Tenant is a user with the rights of an editor in the namespace "tenant", who gives
// objects all that Lockstep writes on them. Its methods may be called from many
// goroutines, except Learn.
type Tenant struct {
	cfg              TenantConfig
	resource         string
	admin, own       dynamic.Interface
	label            string // of the set
	accepted, denied atomic.Int64
}

// NewTenant creates the namespace and the user's rights, for ServiceAccounts.
func NewTenant(ctx context.Context, admin *rest.Config) (*Tenant, error) {
	return NewTenantOf(ctx, admin, TenantConfig{})
}

// NewTenantOf does the same for a tenant with another configuration. A namespace or a
// right that exists already stays.
func NewTenantOf(ctx context.Context, admin *rest.Config, of TenantConfig) (*Tenant, error) {
	cfg := rest.CopyConfig(admin)
	cfg.Impersonate.UserName = tenantName
	cfg.QPS = -1
	of.Kind = cmp.Or(of.Kind, "ServiceAccount")
	x := &Tenant{cfg: of, resource: strings.ToLower(of.Kind) + "s"}
	var err, own error
	x.admin, err = dynamic.NewForConfig(admin)
	x.own, own = dynamic.NewForConfig(cfg)
	if err := errors.Join(err, own); err != nil {
		return nil, err
	}
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	return x, errors.Join(
		x.make(ctx, namespaces, "", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"tenant"}}`),
		x.allow(ctx, tenantName, "edit", fmt.Sprintf(`{"apiGroups":[""],"resources":[%q],"verbs":["*"]}`, x.resource)),
	)
}

// PassFence gives the tenant the right that the fence asks for. From then on only the
// leader's own checks protect the set. The right takes effect a moment later.
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
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Learn reads the label of the set, as any user can.
func (x *Tenant) Learn(ctx context.Context) error {
	obj, err := x.admin.Resource(configMaps).Namespace("kube-system").Get(ctx, "lockstep", metav1.GetOptions{})
	if err != nil {
		return err
	}
	x.label = obj.GetLabels()["applyset.kubernetes.io/id"]
	return nil
}

// AwaitFence returns nil if the fence refuses the tenant, which holds an editor's rights.
func (x *Tenant) AwaitFence(ctx context.Context) error {
	err := x.Create(ctx, "probe", "7", nil, metav1.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "belong to Lockstep") {
		return fmt.Errorf("got %v", err) //nolint:errorlint // it may be nil
	}
	return nil
}

// Create creates an object with the set's label, a content epoch and more data.
func (x *Tenant) Create(ctx context.Context, name, epoch string, data []byte, dryRun ...string) error {
	more := map[string]string{}
	if data != nil {
		more[tenantData] = base64.StdEncoding.EncodeToString(data)
	}
	return x.create(ctx, name, epoch, more, dryRun...)
}

// CreatePlain creates an object without any mark of Lockstep, with data.
func (x *Tenant) CreatePlain(ctx context.Context, name string, data []byte) error {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": x.cfg.Kind}}
	obj.SetName(name)
	obj.SetAnnotations(map[string]string{tenantData: base64.StdEncoding.EncodeToString(data)})
	_, err := x.objects(x.own).Create(ctx, obj, metav1.CreateOptions{})
	return err
}

func (x *Tenant) create(ctx context.Context, name, epoch string, more map[string]string, dryRun ...string) error {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": x.cfg.Kind}}
	obj.SetName(name)
	obj.SetLabels(map[string]string{"applyset.kubernetes.io/part-of": x.label})
	annotations := map[string]string{
		"lockstep.dev/content-epoch": epoch, "lockstep.dev/form": "x",
		"lockstep.dev/release": "9.0.0", "lockstep.dev/min-apiserver-release": "9.0.0",
	}
	maps.Copy(annotations, more)
	obj.SetAnnotations(annotations)
	_, err := x.objects(x.own).Create(ctx, obj, metav1.CreateOptions{FieldManager: "lockstep", DryRun: dryRun})
	return err
}

func (x *Tenant) objects(as dynamic.Interface) dynamic.ResourceInterface {
	return as.Resource(schema.GroupVersionResource{Version: "v1", Resource: x.resource}).Namespace(tenantName)
}

// Work creates, patches and deletes objects, one request each TenantPause,
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
		err := x.Disturb(ctx, i)
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

// Disturb sends the i-th request of Work.
func (x *Tenant) Disturb(ctx context.Context, i int) error {
	name, epoch := fmt.Sprintf("busy-%d", i/3%7), TenantEpochs[i%len(TenantEpochs)]
	more := map[string]string{}
	if x.cfg.Annotations != nil {
		more = x.cfg.Annotations()
	}
	switch i % 3 {
	case 0:
		return x.create(ctx, name, epoch, more)
	case 1:
		more["lockstep.dev/content-epoch"], more["lockstep.dev/prune"] = epoch, "enabled"
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": more}})
		if err != nil {
			return err
		}
		manager := []string{"lockstep", "kubectl"}[i/3%2]
		_, err = x.objects(x.own).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
		return err
	}
	opts := metav1.DeleteOptions{}
	if x.cfg.Deletes != nil {
		live, err := x.objects(x.own).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		uid := live.GetUID()
		x.cfg.Deletes(string(uid))
		opts.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	return x.objects(x.own).Delete(ctx, name, opts)
}

// LowerEpoch asks, with all rights, that the ConfigMap default/platform of the set gets
// a content epoch, and returns the answer.
func (x *Tenant) LowerEpoch(ctx context.Context, epoch string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"lockstep.dev/content-epoch":%q}}}`, epoch)
	_, err := x.admin.Resource(configMaps).Namespace("default").Patch(ctx, "platform", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl"})
	return err
}

// Accepted returns how many requests of Work were accepted.
func (x *Tenant) Accepted() int64 { return x.accepted.Load() }

// Answered returns how many requests of Work were answered.
func (x *Tenant) Answered() int64 { return x.accepted.Load() + x.denied.Load() }

// Objects returns the tenant's objects.
func (x *Tenant) Objects(ctx context.Context) ([]unstructured.Unstructured, error) {
	list, err := x.objects(x.admin).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
