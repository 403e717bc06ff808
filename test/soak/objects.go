package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// repairTime is the limit for the repair of a lost status or mark, before the next
// one is lost.
const repairTime = 60 * time.Second

// landing is the longest time in which a request of the soak can take effect after
// the soak gave up: its kube-apiserver may be cut off from etcd, and then an etcd
// member from the others.
const landing = 15 * time.Second

const admissionGroup = "admissionregistration.k8s.io"

var resources = map[string]schema.GroupVersionResource{
	"Namespace":          {Version: "v1", Resource: "namespaces"},
	"ConfigMap":          {Version: "v1", Resource: "configmaps"},
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"PriorityClass":      {Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"},
	"StorageClass":       {Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"},
	"RuntimeClass":       {Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"},
	"CSIDriver":          {Group: "storage.k8s.io", Version: "v1", Resource: "csidrivers"},
	"Widget":             {Group: widgetGroup, Version: "v1", Resource: "widgets"},

	"CustomResourceDefinition": {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},

	"ValidatingAdmissionPolicy": {Group: admissionGroup, Version: "v1", Resource: "validatingadmissionpolicies"},
	"Role":                      {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},

	"MutatingAdmissionPolicy":          {Group: admissionGroup, Version: "v1", Resource: "mutatingadmissionpolicies"},
	"MutatingAdmissionPolicyBinding":   {Group: admissionGroup, Version: "v1", Resource: "mutatingadmissionpolicybindings"},
	"ValidatingAdmissionPolicyBinding": {Group: admissionGroup, Version: "v1", Resource: "validatingadmissionpolicybindings"},
}

// edits are a user's changes of an object, in addition to the annotation.
var edits = map[string]map[string]any{
	"Namespace":          {"metadata": map[string]any{"labels": map[string]any{"form": "edited"}}},
	"ConfigMap":          {"data": map[string]any{"form": "edited", "more": "edited"}},
	"ClusterRole":        {"rules": []any{}},
	"ClusterRoleBinding": {"subjects": []any{}},
	"PriorityClass":      {"description": "edited"},
	"StorageClass":       {"metadata": map[string]any{"labels": map[string]any{"edited": "true"}}},
	"RuntimeClass":       {"metadata": map[string]any{"labels": map[string]any{"edited": "true"}}},
	"CSIDriver":          {"metadata": map[string]any{"labels": map[string]any{"edited": "true"}}},
	"Widget":             {"spec": map[string]any{"form": "edited"}},

	"CustomResourceDefinition": {"metadata": map[string]any{"labels": map[string]any{"form": "edited"}}},
}

// resource accesses objects of a kind through a kube-apiserver that no fault is at, if there is
// one. An empty ns is for kinds without a namespace.
func (w *world) resource(kind, ns string) dynamic.ResourceInterface {
	api := w.anyServer().client.Resource(resources[kind])
	if ns == "" {
		return api
	}
	return api.Namespace(ns)
}

func (w *world) anyServer() *server {
	for _, s := range w.servers {
		if s.busy.TryLock() {
			s.busy.Unlock()
			return s
		}
	}
	return w.servers[0]
}

// spoilObject edits or deletes an object, or removes its stamp, like a user who
// does not know who manages it.
func (w *world) spoilObject(ctx context.Context, f fault) outcome {
	k := keptObjects[f.object]
	if f.kind == dropObject && (k.kind == "Namespace" || k.kind == "CustomResourceDefinition") {
		return skipped // its content would be lost, too: there are faults for that
	}
	api := w.resource(k.kind, k.namespace)
	live, err := api.Get(ctx, k.name, metav1.GetOptions{})
	if err != nil {
		return skipped
	}
	if f.kind == dropObject {
		return w.deleteObject(ctx, api, live)
	}
	w.mu.Lock()
	w.edits++
	annotations := map[string]any{editAnnotation: strconv.Itoa(w.edits)}
	w.mu.Unlock()
	patch := unstructured.Unstructured{Object: map[string]any{}}
	if f.kind == editObject {
		patch.Object = (&unstructured.Unstructured{Object: edits[k.kind]}).DeepCopy().Object
	} else {
		annotations["lockstep.dev/content-epoch"] = nil // the epoch policy rejects any other value
	}
	if err := unstructured.SetNestedMap(patch.Object, annotations, "metadata", "annotations"); err != nil {
		panic(err) // edits is a constant
	}
	data, err := json.Marshal(patch.Object)
	if err != nil {
		panic(err)
	}
	if _, err := api.Patch(ctx, k.name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: "soak-user"}); err != nil {
		return skipped
	}
	return done
}

// deleteObject deletes the object that was read, and no object that replaced
// it. The recorder recognizes it by its UID.
func (w *world) deleteObject(ctx context.Context, api dynamic.ResourceInterface, live *unstructured.Unstructured) outcome {
	uid := live.GetUID()
	w.rec.deletes(string(uid))
	err := api.Delete(ctx, live.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil {
		return skipped
	}
	return done
}

// lose deletes or damages the status or the mark, never both: that is a known
// limit (docs/model.md). It returns when both exist again.
func (w *world) lose(ctx context.Context, f fault) outcome {
	ctx, cancel := context.WithTimeout(ctx, repairTime)
	defer cancel()
	if w.bothExist(ctx) != nil {
		return skipped
	}
	var err error
	switch f.kind {
	case dropParent:
		api := w.resource("ConfigMap", "kube-system")
		var live *unstructured.Unstructured
		if live, err = api.Get(ctx, "lockstep", metav1.GetOptions{}); err == nil && w.deleteObject(ctx, api, live) == skipped {
			err = errors.New("the parent was not deleted")
		}
	case dropStatus:
		w.rec.deletesStatus()
		_, err = w.etcd.Delete(ctx, w.rec.keys.Status())
	default:
		_, err = w.etcd.Put(ctx, w.rec.keys.Status(), fmt.Sprintf("%sstatus %d", garbage, f.how))
	}
	if err != nil {
		// The request may still take effect.
		pause(ctx, landing)
	}
	for pause(ctx, 200*time.Millisecond) && w.bothExist(ctx) != nil {
		continue
	}
	if err != nil {
		return skipped
	}
	return done
}

// bothExist returns nil if the status and the mark exist, and each could be rebuilt
// from the other.
func (w *world) bothExist(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	s, err := w.status(ctx)
	if err != nil {
		return err
	}
	if s.Kind != protocol.StatusPresent {
		return fmt.Errorf("status: %s", s)
	}
	parent, err := w.resource("ConfigMap", "kube-system").Get(ctx, "lockstep", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("parent: %w", err)
	}
	text, _, _ := unstructured.NestedString(parent.Object, "data", "mark.json")
	var mark struct {
		FirstDone bool
		Entries   []struct{ Digest string }
	}
	if err := json.Unmarshal([]byte(text), &mark); err != nil {
		return fmt.Errorf("mark: %w", err)
	}
	for _, e := range mark.Entries {
		if e.Digest == "" {
			return errors.New("the mark was rebuilt from stamps and has no digests yet")
		}
	}
	if !mark.FirstDone || len(mark.Entries) == 0 {
		return errors.New("the mark has no content")
	}
	return nil
}

// status reads the status from etcd.
func (w *world) status(ctx context.Context) (protocol.StatusView, error) {
	resp, err := w.etcd.Get(ctx, w.rec.keys.Status())
	if err != nil {
		return protocol.StatusView{}, err
	}
	return statusIn(resp), nil
}

func statusIn(resp *clientv3.GetResponse) protocol.StatusView {
	if len(resp.Kvs) == 0 {
		return status.Decode(nil)
	}
	kv := etcd.NewKV(resp.Kvs[0])
	return status.Decode(&kv)
}

// inPlace returns nil if all objects are in the form of the newest release, and no
// other object remains but strangers (docs/protocol-objects.md#inventory).
func (w *world) inPlace(ctx context.Context) error {
	for _, k := range keptObjects {
		want := k.in(newest(), w.buildOf(newest()))
		live, err := w.resource(k.kind, k.namespace).Get(ctx, k.name, metav1.GetOptions{})
		switch {
		case want == "" && err == nil:
			if err := w.isStranger(ctx, k); err != nil {
				return fmt.Errorf("%s still exists: %w", k.ref(), err)
			}
		case want == "":
		case err != nil:
			return fmt.Errorf("%s: %w", k.ref(), err)
		case k.formOf(live.Object) != want:
			return fmt.Errorf("%s is in the form %q, want %q", k.ref(), k.formOf(live.Object), want)
		}
	}
	return nil
}

// isStranger returns nil if a sidecar shows an object as a stranger, which is one only
// if the soak deleted the set's parent. Only the leader shows any.
func (w *world) isStranger(ctx context.Context, k kept) error {
	if !w.rec.lostInventory() {
		return errors.New("no inventory was lost")
	}
	name := fmt.Sprintf("%s %q", k.kind, strings.TrimPrefix(k.ref(), k.kind+" "))
	var unknown []error
	for _, n := range w.nodes {
		s := n.running()
		if s == nil {
			continue
		}
		shown, err := s.Status(ctx)
		if err != nil {
			unknown = append(unknown, err)
			continue
		}
		of := shown.Reconcile
		for _, stranger := range of.Strangers {
			if stranger.Object == name {
				return nil
			}
		}
		if of.TotalStrangers > len(of.Strangers) {
			return nil // it is not among the first ten
		}
	}
	return errors.Join(append(unknown, errors.New("no sidecar shows it as a stranger"))...)
}
