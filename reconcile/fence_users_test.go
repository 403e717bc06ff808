package reconcile_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

var (
	serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	endpoints       = schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}
	endpointSlices  = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	deployments     = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	replicaSets     = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
)

// user is a user of the API server who may do everything with some kinds of the
// platform, and nothing with the set's parent.
type user struct {
	*rig
	api *dynamic.DynamicClient
}

// newUser returns a rig whose fence works, and a user beside it.
func newUser(t *testing.T, manifests ...string) user {
	t.Helper()
	r := newRig(t)
	r.epoch = 2
	r.use("1.0.0", append(manifests, configMap("a", "x: one"))...)
	r.mustComplete()
	r.awaitFence()
	r.allow("core", "", `"serviceaccounts","services","services/status","endpoints","namespaces","namespaces/finalize"`, `"*"`)
	r.allow("apps", "apps", `"deployments","deployments/scale","deployments/status","replicasets"`, `"*"`)
	r.allow("scheduling", "scheduling.k8s.io", `"priorityclasses"`, `"*"`)
	r.allow("discovery", "discovery.k8s.io", `"endpointslices"`, `"*"`)
	r.allow("crds", "apiextensions.k8s.io", `"customresourcedefinitions"`, `"*"`)
	cfg := shared.Get(t).Config()
	cfg.Impersonate.UserName = r.ns + "-user"
	api, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	u := user{rig: r, api: api}
	await(t, "the user's rights", func() error {
		for _, gvr := range []schema.GroupVersionResource{serviceAccounts, deployments, priorityClasses, endpointSlices, crds} {
			if _, err := api.Resource(gvr).List(t.Context(), metav1.ListOptions{Limit: 1}); err != nil {
				return err
			}
		}
		return nil
	})
	return u
}

func (u user) label() string {
	u.t.Helper()
	return u.get(configMaps, u.ns, "set").GetLabels()["applyset.kubernetes.io/id"]
}

// all is a merge patch of everything that Lockstep writes on objects.
func (u user) all(epoch string) string {
	u.t.Helper()
	return fmt.Sprintf(`{"metadata":{"labels":{"applyset.kubernetes.io/part-of":%q},"annotations":{"lockstep.dev/content-epoch":%q,
		"lockstep.dev/release":"1.0.0","lockstep.dev/min-apiserver-release":"0.0.0","lockstep.dev/form":"x","lockstep.dev/prune":"enabled"}}}`, u.label(), epoch)
}

func (u user) patch(gvr schema.GroupVersionResource, ns, name, manager, patch string, sub ...string) error {
	_, err := u.api.Resource(gvr).Namespace(ns).Patch(u.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager}, sub...)
	return err
}

func (u user) make(gvr schema.GroupVersionResource, ns, manifest string) error {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(strings.ReplaceAll(strings.ReplaceAll(manifest, "NS", u.ns), "SET", u.label()))); err != nil {
		return err
	}
	_, err := u.api.Resource(gvr).Namespace(ns).Create(u.t.Context(), obj, metav1.CreateOptions{FieldManager: "lockstep"})
	return err
}

func wantPass(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: got %v, want it to pass", what, err)
	}
}

func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "belong to Lockstep") {
		t.Errorf("%s: got %v, want 403 by the fence", what, err)
	}
}

const (
	account        = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: ours, namespace: NS}\n"
	classManifest  = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-ours}\nvalue: 5\n"
	balancer       = "apiVersion: v1\nkind: Service\nmetadata: {name: ours, namespace: NS}\nspec: {type: LoadBalancer, ports: [{port: 80}]}\n"
	spaceManifest  = "apiVersion: v1\nkind: Namespace\nmetadata: {name: NS-space}\n"
	insideManifest = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: inside, namespace: NS-space}\n"
	replicas       = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: ours, namespace: NS}\nspec: {selector: {matchLabels: {a: b}}, " +
		"template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}\n"
)

// Users who may not change the set's parent cannot bring objects into the set, nor
// change what the leader believes about those in it.
func TestFenceAgainstUsers(t *testing.T) {
	u := newUser(t, account, classManifest)
	wantPass(t, "a PriorityClass of theirs", u.make(priorityClasses, "", `{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"NS-theirs"},"value":7}`))
	wantPass(t, "a Namespace of theirs", u.make(namespaces, "", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"NS-theirs"}}`))
	wantPass(t, "a CRD of theirs", u.make(crds, "", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"theirs.NS.test"},
		"spec":{"group":"NS.test","names":{"kind":"Theirs","plural":"theirs"},"scope":"Cluster",
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`))
	for _, manager := range []string{"lockstep", "kubectl"} {
		wantRefused(t, "a PriorityClass that joins", u.patch(priorityClasses, "", u.ns+"-theirs", manager, u.all("7")))
		wantRefused(t, "a Namespace that joins", u.patch(namespaces, "", u.ns+"-theirs", manager, u.all("7")))
		wantRefused(t, "a CRD that joins", u.patch(crds, "", "theirs."+u.ns+".test", manager, u.all("7")))
		wantRefused(t, "an epoch that is raised", u.patch(serviceAccounts, u.ns, "ours", manager, epochPatch(`"7"`)))
		wantRefused(t, "an annotation that is set", u.patch(serviceAccounts, u.ns, "ours", manager, `{"metadata":{"annotations":{"lockstep.dev/prune":"enabled"}}}`))
		wantRefused(t, "a form that is changed", u.patch(priorityClasses, "", u.ns+"-ours", manager, `{"metadata":{"annotations":{"lockstep.dev/form":"x"}}}`))
	}
	for name, epoch := range map[string]string{"of some epoch": "7", "of the highest": "4503599627370496", "above it": "4503599627370497", "of garbage": "many"} {
		manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"theirs","labels":{"applyset.kubernetes.io/part-of":"SET"},"annotations":{"lockstep.dev/content-epoch":%q}}}`, epoch)
		wantRefused(t, "a creation "+name, u.make(serviceAccounts, u.ns, manifest))
	}
	wantRefused(t, "a creation with the label alone", u.make(serviceAccounts, u.ns, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"theirs","labels":{"applyset.kubernetes.io/part-of":"SET"}}}`))
	t.Run("in two steps", func(t *testing.T) {
		wantPass(t, "annotations without the label", u.patch(priorityClasses, "", u.ns+"-theirs", "lockstep", strings.Replace(u.all("7"), "part-of", "part", 1)))
		wantRefused(t, "the label then", u.patch(priorityClasses, "", u.ns+"-theirs", "lockstep", u.all("7")))
	})
	t.Run("an object that left the set does not return", func(t *testing.T) {
		wantPass(t, "it leaves", u.patch(priorityClasses, "", u.ns+"-ours", "kubectl", `{"metadata":{"labels":{"applyset.kubernetes.io/part-of":null}}}`))
		wantRefused(t, "it returns", u.patch(priorityClasses, "", u.ns+"-ours", "kubectl", u.all("9")))
		u.mustComplete()
	})
	t.Run("one owner does not make an object of ours a copy", func(t *testing.T) {
		wantRefused(t, "an owner and an epoch", u.patch(serviceAccounts, u.ns, "ours", "kubectl",
			`{"metadata":{"annotations":{"lockstep.dev/content-epoch":"8"},"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true}]}}`))
	})
	t.Run("an object of ours gets no controller, so that it is never taken for a copy", func(t *testing.T) {
		const owner = `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true}]}}`
		wantRefused(t, "an owner alone", u.patch(priorityClasses, "", u.ns+"-ours", "kubectl", owner))
		wantRefused(t, "an owner alone", u.patch(serviceAccounts, u.ns, "ours", "kubectl", owner))
		wantPass(t, "an owner that is no controller", u.patch(serviceAccounts, u.ns, "ours", "kubectl", strings.Replace(owner, "true", "false", 1)))
		wantPass(t, "no owner", u.patch(serviceAccounts, u.ns, "ours", "kubectl", `{"metadata":{"ownerReferences":null}}`))
	})
	t.Run("an object of theirs with a controller, as a copy has one, is a stranger once it has none", func(t *testing.T) {
		wantPass(t, "a copy", u.make(serviceAccounts, u.ns, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"copy",
			"labels":{"applyset.kubernetes.io/part-of":"SET"},"annotations":{"lockstep.dev/content-epoch":"4503599627370496"},
			"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"p","uid":"u","controller":true}]}}`))
		wantPass(t, "no owner", u.patch(serviceAccounts, u.ns, "copy", "lockstep", `{"metadata":{"ownerReferences":null}}`))
		if out := u.mustComplete(); out.HighestEpoch != u.epoch || u.report().TotalStrangers != 1 || !strings.Contains(u.report().Strangers[0].Object, "/copy") {
			t.Errorf("got %+v and %+v", out, u.report().Strangers)
		}
		u.delete(serviceAccounts, u.ns, "copy")
	})
	t.Run("a lower epoch is refused to all", func(t *testing.T) {
		err := u.patch(serviceAccounts, u.ns, "ours", "kubectl", epochPatch(`"1"`))
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot become 1") {
			t.Errorf("got %v", err)
		}
	})
	if out := u.mustComplete(); out.HighestEpoch != u.epoch || u.report().TotalStrangers != 0 {
		t.Errorf("got %+v and %+v, want nothing changed", out, u.report().Strangers)
	}
}

// Users who may edit objects of the platform, and not the set's parent, edit them as
// they would without Lockstep.
func TestFenceIsInNoUsersWay(t *testing.T) {
	u := newUser(t, account, classManifest, balancer, replicas, spaceManifest, insideManifest)
	accounts := u.api.Resource(serviceAccounts).Namespace(u.ns)
	t.Run("edits", func(t *testing.T) {
		wantPass(t, "a label", u.patch(serviceAccounts, u.ns, "ours", "kubectl", `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}}}`))
		wantPass(t, "a field of ours", u.patch(priorityClasses, "", u.ns+"-ours", "kubectl", `{"description":"theirs"}`))
		wantPass(t, "the annotations that are there", u.patch(serviceAccounts, u.ns, "ours", "kubectl", epochPatch(`"3"`)))
		wantPass(t, "a finalizer", u.patch(serviceAccounts, u.ns, "ours", "kubectl", `{"metadata":{"finalizers":["x.test/y"]}}`))
		wantPass(t, "no finalizer", u.patch(serviceAccounts, u.ns, "ours", "kubectl", `{"metadata":{"finalizers":null}}`))
		wantPass(t, "many annotations", u.patch(serviceAccounts, u.ns, "ours", "kubectl", `{"metadata":{"annotations":{`+manyNames(20_000)+`}}}`))
	})
	t.Run("kubectl replace", func(t *testing.T) {
		for _, edit := range []func(*unstructured.Unstructured){
			func(o *unstructured.Unstructured) {
				o.SetLabels(map[string]string{"applyset.kubernetes.io/part-of": u.label(), "a": "c"})
			},
			func(o *unstructured.Unstructured) { o.SetAnnotations(nil) },
			func(o *unstructured.Unstructured) { o.SetLabels(nil) },
		} {
			obj, err := accounts.Get(t.Context(), "ours", getOptions)
			if err != nil {
				t.Fatal(err)
			}
			edit(obj)
			_, err = accounts.Update(t.Context(), obj, metav1.UpdateOptions{FieldManager: "kubectl-replace"})
			wantPass(t, "replace", err)
			u.mustComplete()
		}
	})
	t.Run("server-side apply by another manager", func(t *testing.T) {
		annotations := u.get(serviceAccounts, u.ns, "ours").GetAnnotations()
		for _, with := range []map[string]string{nil, annotations} {
			obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": false}}
			obj.SetName("ours")
			obj.SetAnnotations(with)
			_, err := accounts.Apply(t.Context(), "ours", obj, metav1.ApplyOptions{FieldManager: "flux", Force: true})
			wantPass(t, "apply", err)
		}
	})
	t.Run("subresources", func(t *testing.T) {
		wantPass(t, "status", u.patch(services, u.ns, "ours", "cloud", `{"status":{"loadBalancer":{"ingress":[{"ip":"10.1.2.3"}]}}}`, "status"))
		wantPass(t, "scale", u.patch(deployments, u.ns, "ours", "hpa", `{"spec":{"replicas":3}}`, "scale"))
	})
	t.Run("what controllers copy labels to", func(t *testing.T) {
		const owner = `"ownerReferences":[{"apiVersion":"v1","kind":"Service","name":"ours","uid":"u","controller":true,"blockOwnerDeletion":false}]`
		wantPass(t, "Endpoints", u.make(endpoints, u.ns, `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"ours"}}`))
		wantPass(t, "Endpoints of a Service that joins", u.patch(endpoints, u.ns, "ours", "c", `{"metadata":{"labels":{"applyset.kubernetes.io/part-of":"`+u.label()+`"}}}`))
		wantPass(t, "an EndpointSlice", u.make(endpointSlices, u.ns, `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","addressType":"IPv4","endpoints":[],"metadata":{"name":"ours-x","labels":{"applyset.kubernetes.io/part-of":"SET"},`+owner+`}}`))
		set := func(epoch string) string {
			return `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"ours-x","labels":{"applyset.kubernetes.io/part-of":"SET"},"annotations":{"lockstep.dev/content-epoch":"` + epoch + `"},` + owner + `},
			"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x"}]}}}}`
		}
		wantPass(t, "a ReplicaSet", u.make(replicaSets, u.ns, set("3")))
		wantPass(t, "its annotations after an upgrade", u.patch(replicaSets, u.ns, "ours-x", "c", epochPatch(`"4"`)))
		wantPass(t, "the garbage collector, which removes an owner", u.patch(replicaSets, u.ns, "ours-x", "gc", `{"metadata":{"ownerReferences":null}}`))
	})
	t.Run("a namespace that is deleted", func(t *testing.T) {
		spaces, name := u.api.Resource(namespaces), u.ns+"-space"
		wantPass(t, "the deletion", spaces.Delete(t.Context(), name, metav1.DeleteOptions{}))
		// The rest is what the namespace controller does, which does not run here.
		inside := u.api.Resource(serviceAccounts).Namespace(name)
		wantPass(t, "the objects in it", inside.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
		obj, err := spaces.Get(t.Context(), name, getOptions)
		if err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(obj.Object, "spec", "finalizers")
		_, err = spaces.Update(t.Context(), obj, metav1.UpdateOptions{}, "finalize")
		wantPass(t, "its finalization", err)
		u.wantGone(namespaces, "", name)
		u.mustComplete()
		u.get(serviceAccounts, name, "inside")
	})
}

func manyNames(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf(`"a%d":""`, i))
	}
	return strings.Join(names, ",")
}

// A backup has our label and annotations. An administrator restores it, or a user
// without these.
func TestFenceAndBackups(t *testing.T) {
	u := newUser(t, account)
	backup := u.get(serviceAccounts, u.ns, "ours")
	for _, field := range []string{"uid", "resourceVersion", "managedFields", "creationTimestamp"} {
		unstructured.RemoveNestedField(backup.Object, "metadata", field)
	}
	u.use("1.0.1", account, configMap("a", "x: two"))
	u.mustComplete()
	u.delete(serviceAccounts, u.ns, "ours")
	_, err := u.api.Resource(serviceAccounts).Namespace(u.ns).Create(t.Context(), backup, metav1.CreateOptions{})
	wantRefused(t, "a restore by a user", err)
	unlabelled := backup.DeepCopy()
	unlabelled.SetLabels(nil)
	_, err = u.api.Resource(serviceAccounts).Namespace(u.ns).Create(t.Context(), unlabelled, metav1.CreateOptions{DryRun: []string{"All"}})
	wantPass(t, "a restore by a user, without the label", err)
	_, err = u.rig.api.Resource(serviceAccounts).Namespace(u.ns).Create(t.Context(), backup, metav1.CreateOptions{})
	wantPass(t, "a restore by an administrator", err)
	u.mustComplete()
	if got := u.report(); got.TotalStrangers != 0 || got.Objects.Failed != 0 {
		t.Errorf("got %+v", got)
	}
}
