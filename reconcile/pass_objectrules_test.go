package reconcile_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/protocol"
)

// TestImmutable changes a field that its kind does not let change, on the real
// apiserver: each kind refuses in words of its own.
func TestImmutable(t *testing.T) {
	tests := []struct {
		gvr      schema.GroupVersionResource
		ns       bool
		manifest string // with %s for what changes
		from, to string
	}{
		{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}, false,
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: NS-x}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}\n", "view", "edit"},
		{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}, true,
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: NS-x, namespace: NS}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}\n", "view", "edit"},
		{schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}, false,
			"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: NS-x}\nprovisioner: x.test\nparameters: {type: %s}\n", "slow", "fast"},
		{schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}, false,
			"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: NS-y}\nprovisioner: %s\n", "x.test", "y.test"},
		{schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}, false,
			"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: NS-z}\nprovisioner: x.test\nvolumeBindingMode: %s\n", "Immediate", "WaitForFirstConsumer"},
		{schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}, false,
			"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: NS-w}\nprovisioner: x.test\nreclaimPolicy: %s\n", "Delete", "Retain"},
		{schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "csidrivers"}, false,
			"apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: NS-x}\nspec: {attachRequired: %s}\n", "true", "false"},
		{schema.GroupVersionResource{Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"}, false,
			"apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: NS-x}\nhandler: %s\n", "runc", "runsc"},
		{priorityClasses, false,
			"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-x}\nvalue: %s\n", "5", "6"},
		{priorityClasses, false,
			"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-y}\nvalue: 1\npreemptionPolicy: %s\n", "Never", "PreemptLowerPriority"},
		{schema.GroupVersionResource{Version: "v1", Resource: "services"}, true,
			"apiVersion: v1\nkind: Service\nmetadata: {name: x, namespace: NS}\nspec: {clusterIP: %s, ports: [{port: 80}]}\n", fixedIP(1), fixedIP(2)},
		{schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, true,
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: x, namespace: NS}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: %s}]}}}\n", "one", "two"},
		{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, true,
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x, namespace: NS}\nspec: {selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: c, image: i}]}}}\n", "one", "two"},
		{configMaps, true,
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: NS}\nimmutable: true\ndata: {x: %s}\n", "one", "two"},
		{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, true,
			"apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: NS}\ntype: %s\n", "one.test/x", "two.test/x"},
	}
	r := newRig(t)
	var before, after []string
	for _, tt := range tests {
		before = append(before, fmt.Sprintf(tt.manifest, tt.from))
		after = append(after, fmt.Sprintf(tt.manifest, tt.to))
	}
	r.use("1.0.0", before...)
	r.mustComplete()
	r.use("1.0.1", after...)
	out, err := r.pass()
	if err != nil {
		t.Fatal(err)
	}
	if !out.Complete || r.report().Objects.Applied != len(tests) {
		t.Errorf("got %+v", r.report())
	}
	r.restart()
	r.mustComplete()
	if writes := r.wire.writes(); len(writes) > 0 {
		t.Errorf("got writes %q by another leader, want none", writes)
	}
}

func TestRecreate(t *testing.T) {
	class := func(value int, annotation string) string {
		return fmt.Sprintf("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-x, annotations: {%s}}\nvalue: %d\n", annotation, value)
	}
	t.Run("is turned off by the annotation, and the failure says so", func(t *testing.T) {
		r := newRig(t)
		off := "lockstep.dev/recreate: disabled"
		r.use("1.0.0", class(1, off))
		r.mustComplete()
		uid := r.get(priorityClasses, "", r.ns+"-x").GetUID()
		r.use("1.0.1", class(2, off))
		out, err := r.pass()
		if err != nil || out.Complete || len(r.report().Failures) != 1 || !strings.Contains(r.report().Failures[0].Message, "lockstep.dev/recreate") {
			t.Errorf("got %+v, %v, %+v, want one failure that names the annotation", out, err, r.report())
		}
		if got := r.get(priorityClasses, "", r.ns+"-x").GetUID(); got != uid {
			t.Error("the object was recreated")
		}
	})
	t.Run("that is interrupted between deletion and creation is finished by the next leader", func(t *testing.T) {
		r := newRig(t)
		r.use("1.0.0", class(1, ""))
		r.mustComplete()
		r.use("1.0.1", class(2, ""))
		r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if req.Method == http.MethodPost && !req.URL.Query().Has("dryRun") {
				return answer(http.StatusForbidden, "Forbidden", "not now"), nil
			}
			return next.RoundTrip(req)
		})
		if out, err := r.pass(); err != nil || out.Complete {
			t.Fatalf("got %+v, %v, want an incomplete pass", out, err)
		}
		r.wantGone(priorityClasses, "", r.ns+"-x")
		r.wire.setFault(nil)
		r.restart()
		r.mustComplete()
		if got := r.get(priorityClasses, "", r.ns+"-x").Object["value"]; got != int64(2) {
			t.Errorf("got value %v, want 2", got)
		}
	})
}

const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.NS.test}
spec:
  group: NS.test
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
`

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

const widget = "apiVersion: NS.test/v1\nkind: Widget\nmetadata: {name: w, namespace: NS-more}\nspec: {size: 3}\n"

const moreNamespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: NS-more}\n"

// wantInOrder requires that requests for these resources are among the paths, in this
// order.
func wantInOrder(t *testing.T, paths []string, resources ...string) {
	t.Helper()
	rest := paths
	for _, resource := range resources {
		at := slices.IndexFunc(rest, func(path string) bool { return strings.HasSuffix(path, "/"+resource) })
		if at < 0 {
			t.Fatalf("got %q, want %q in this order", paths, resources)
		}
		rest = rest[at+1:]
	}
}

// The first reconciliation has nothing to protect, and the API server examines each
// creation once the fence is there.
func TestWaves_firstReconciliation(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"), moreNamespace)
	if out, err := r.work(protocol.Work{Content: r.content, First: true, LeaderEpoch: 7}); err != nil || !out.Complete {
		t.Fatalf("got %+v, %v, want a complete pass", out, err)
	}
	wantInOrder(t, r.wire.sent("POST"), "configmaps", "namespaces", "configmaps", "validatingadmissionpolicies")
}

func TestWaves(t *testing.T) {
	r := newRig(t)
	widgets := schema.GroupVersionResource{Group: r.ns + ".test", Version: "v1", Resource: "widgets"}
	policy := "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: NS-p}\nspec: {matchConstraints: {resourceRules: [{apiGroups: [NS.test], apiVersions: [v1], operations: [CREATE], resources: [widgets]}]}, validations: [{expression: 'object.spec.size > 0'}]}\n"

	t.Run("a namespace, a CRD, an object of it and a policy come in one pass, in order", func(t *testing.T) {
		r.use("1.0.0", policy, widget, crd, moreNamespace)
		r.mustComplete()
		posts := r.wire.sent("POST")
		wantInOrder(t, posts, "configmaps", "validatingadmissionpolicies", "namespaces", "widgets", "validatingadmissionpolicies")
		r.restart()
		r.mustComplete()
		if writes := r.wire.writes(); len(writes) > 0 {
			t.Errorf("got writes %q by another leader, want none", writes)
		}
	})
	t.Run("CRDs and namespaces stay when the bundle drops them", func(t *testing.T) {
		r.use("1.0.1", configMap("a", "x: one"), configMap("b", "x: one"))
		r.mustComplete()
		r.get(crds, "", "widgets."+r.ns+".test")
		r.get(namespaces, "", r.ns+"-more")
		r.wantGone(widgets, r.ns+"-more", "w")
		r.wantGone(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}, "", r.ns+"-p")
	})
	t.Run("they are removed where the annotation allows it", func(t *testing.T) {
		enabled := strings.Replace(crd, "metadata: {", "metadata: {annotations: {lockstep.dev/prune: enabled}, ", 1)
		space := "apiVersion: v1\nkind: Namespace\nmetadata: {name: NS-going, annotations: {lockstep.dev/prune: enabled}}\n"
		r.use("1.0.2", configMap("a", "x: one"), enabled, space)
		r.mustComplete()
		r.use("1.0.3", configMap("a", "x: one"))
		r.mustComplete()
		// No controller here ends what a namespace waits for.
		if r.get(namespaces, "", r.ns+"-going").GetDeletionTimestamp() == nil {
			t.Error("the namespace stays")
		}
		cluster := func() error {
			_, err := r.api.Resource(crds).Get(t.Context(), "widgets."+r.ns+".test", getOptions)
			return wantNotFound(err)
		}
		await(t, "the CRD to go", cluster)
	})
}

// A kind may be served in a version only that its group does not prefer.
func TestPruneFindsOtherVersions(t *testing.T) {
	r := newRig(t)
	gadgetCRD := strings.NewReplacer("widget", "gadget", "Widget", "Gadget", "name: v1", "name: v1alpha1").Replace(crd)
	gadget := "apiVersion: NS.test/v1alpha1\nkind: Gadget\nmetadata: {name: g, namespace: NS}\n"
	r.use("1.0.0", crd, gadgetCRD, gadget, configMap("a", "x: one"))
	r.mustComplete()
	r.use("1.0.1", crd, gadgetCRD, configMap("a", "x: one"))
	r.restart()
	r.mustComplete()
	r.wantGone(schema.GroupVersionResource{Group: r.ns + ".test", Version: "v1alpha1", Resource: "gadgets"}, r.ns, "g")
}

// A CRD may be replaced by one of another scope, by a user.
func TestKindOfAnotherScope(t *testing.T) {
	r := newRig(t)
	gadgets := strings.NewReplacer("widget", "gadget", "Widget", "Gadget").Replace(crd)
	r.use("1.0.0", gadgets, "apiVersion: NS.test/v1\nkind: Gadget\nmetadata: {name: g, namespace: NS}\n")
	r.mustComplete()
	name := "gadgets." + r.ns + ".test"
	was := r.get(crds, "", name)
	r.delete(crds, "", name)
	await(t, "the CRD to go", func() error {
		_, err := r.api.Resource(crds).Get(t.Context(), name, getOptions)
		return wantNotFound(err)
	})
	now := &unstructured.Unstructured{Object: map[string]any{"apiVersion": was.GetAPIVersion(), "kind": was.GetKind(), "spec": was.Object["spec"]}}
	now.SetName(name)
	now.Object["spec"].(map[string]any)["scope"] = "Cluster"
	if _, err := r.api.Resource(crds).Create(t.Context(), now, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the new one to be served", func() error {
		_, err := r.api.Resource(schema.GroupVersionResource{Group: r.ns + ".test", Version: "v1", Resource: "gadgets"}).List(t.Context(), metav1.ListOptions{})
		return err
	})
	r.use("1.0.1", strings.ReplaceAll(gadgets, "Namespaced", "Cluster"), "apiVersion: NS.test/v1\nkind: Gadget\nmetadata: {name: g}\n")
	if _, err := r.pass(); err != nil {
		t.Fatal(err)
	}
	r.mustComplete()
}

func TestFailures(t *testing.T) {
	r := newRig(t)
	tests := []struct {
		name, manifest, want string
	}{
		{"a kind that is not served", "apiVersion: unknown.test/v1\nkind: Nothing\nmetadata: {name: x}\n", "does not know the kind Nothing"},
		{"a missing namespace", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: NS-nowhere}\n", "not found"},
		{"no namespace", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", "set metadata.namespace"},
		{"a namespace too many", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-y, namespace: NS}\nvalue: 1\n", "remove metadata.namespace"},
		{"the set's own parent", configMap("set", "x: one"), "is the parent of the set"},
		{"an unknown field", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-z}\nvalue: 1\nvalues: 2\n", `unknown field "values"`},
		{"a name of 300 characters", configMap(strings.Repeat("x", 300), "x: one"), "must be no more than 253"},
		{"a Secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: NS}\ntype: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: hunter2}\n", "withheld"},
	}
	manifests := []string{configMap("good", "x: one")}
	for _, tt := range tests {
		manifests = append(manifests, tt.manifest)
	}
	r.use("1.0.0", manifests...)
	out, err := r.pass()
	if err != nil || out.Complete {
		t.Fatalf("got %+v, %v, want an incomplete pass", out, err)
	}
	got := r.report()
	if got.Objects.Failed != len(tests) || got.Objects.Applied != 1+fenceObjects || got.TotalFailures != len(tests) {
		t.Errorf("got %+v, want %d failed and the others applied", got, len(tests))
	}
	for _, tt := range tests {
		found := false
		for _, f := range got.Failures {
			found = found || strings.Contains(f.Message, tt.want)
			if strings.Contains(f.Message, "hunter2") {
				t.Errorf("a Secret's contents are shown: %q", f.Message)
			}
		}
		if !found {
			t.Errorf("%s: no failure says %q: %+v", tt.name, tt.want, got.Failures)
		}
	}
	t.Run("what is not required does not hold back DONE", func(t *testing.T) {
		r.use("1.0.1", configMap("good", "x: one"),
			"apiVersion: unknown.test/v1\nkind: Nothing\nmetadata: {name: x, annotations: {lockstep.dev/required: \"false\"}}\n")
		r.mustComplete()
		if got := r.report(); got.Objects.Failed != 1 {
			t.Errorf("got %+v, want the failure reported all the same", got)
		}
	})
	t.Run("the mark does not forget older content while a pass is incomplete", func(t *testing.T) {
		good := r.content
		r.use("1.0.2", configMap("good", "x: two"), tests[0].manifest)
		if out, err := r.pass(); err != nil || out.Complete {
			t.Fatalf("got %+v, %v, want an incomplete pass", out, err)
		}
		mark := r.survey()
		if len(mark.Entries) != 2 || mark.Entries[0] != good || mark.Entries[1] != r.content || !mark.FirstDone {
			t.Errorf("got %+v, want both contents", mark)
		}
	})
}

// kindsOfFence is how the parent names them.
const kindsOfFence = "ValidatingAdmissionPolicy.admissionregistration.k8s.io,ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io"

func TestMarkComesFirst(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
		if req.Method == http.MethodPost {
			err := r.meanwhile(func(client *rig) {
				if mark := client.survey(); mark.Kind == protocol.MarkAbsent && len(r.wire.sent("POST")) > 1 {
					t.Error("an object was created before the mark")
				}
			})
			if err != nil {
				return nil, err
			}
		}
		return next.RoundTrip(req)
	})
	defer r.wire.setFault(nil)
	r.mustComplete()
	parent := r.get(configMaps, r.ns, "set")
	if got := parent.GetAnnotations()["applyset.kubernetes.io/contains-group-kinds"]; got != "ConfigMap,"+kindsOfFence {
		t.Errorf("got kinds %q, want ConfigMap and those of the fence", got)
	}
	id := parent.GetLabels()["applyset.kubernetes.io/id"]
	if got := r.get(configMaps, r.ns, "a").GetLabels()["applyset.kubernetes.io/part-of"]; got != id || id == "" {
		t.Errorf("got part-of %q, want %q", got, id)
	}
}

func TestPrune(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
	r.mustComplete()
	copied := r.get(configMaps, r.ns, "a")

	t.Run("what others labelled, or copied with all its labels and annotations, is left alone", func(t *testing.T) {
		theirs := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": copied.Object["data"]}}
		theirs.SetName("copy")
		theirs.SetLabels(copied.GetLabels())
		theirs.SetAnnotations(copied.GetAnnotations())
		data, err := theirs.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		r.create(configMaps, r.ns, string(data))
		theirs.SetName("labelled")
		theirs.SetAnnotations(nil)
		data, _ = theirs.MarshalJSON()
		r.create(configMaps, r.ns, string(data))
		r.use("1.0.1", configMap("a", "x: one"))
		r.mustComplete()
		r.wantGone(configMaps, r.ns, "b")
		r.get(configMaps, r.ns, "copy")
		r.get(configMaps, r.ns, "labelled")
	})
	t.Run("what is protected stays", func(t *testing.T) {
		r.use("1.0.2", configMap("a", "x: one"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, namespace: NS, annotations: {lockstep.dev/prune: disabled}}\n")
		r.mustComplete()
		r.use("1.0.3", configMap("a", "x: one"))
		r.mustComplete()
		r.get(configMaps, r.ns, "kept")
	})
	t.Run("a kind that the bundle no longer names is pruned by the parent's record", func(t *testing.T) {
		r.use("1.0.4", configMap("a", "x: one"), "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-x}\nvalue: 1\n")
		r.mustComplete()
		r.use("1.0.5", configMap("a", "x: one"))
		r.restart()
		r.mustComplete()
		r.wantGone(priorityClasses, "", r.ns+"-x")
		if got := r.get(configMaps, r.ns, "set").GetAnnotations()["applyset.kubernetes.io/contains-group-kinds"]; got != "ConfigMap,"+kindsOfFence {
			t.Errorf("got kinds %q, want no PriorityClass", got)
		}
	})
	t.Run("nothing is removed while an object fails", func(t *testing.T) {
		r.use("1.0.6", configMap("c", "x: one"), "apiVersion: unknown.test/v1\nkind: Nothing\nmetadata: {name: x}\n")
		out, err := r.pass()
		if err != nil || out.Complete || out.Owed != 1 {
			t.Errorf("got %+v, %v, want an incomplete pass that owes one", out, err)
		}
		r.get(configMaps, r.ns, "a")
	})
	t.Run("nothing is removed while a recorded kind cannot be listed", func(t *testing.T) {
		r.use("1.0.7", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-y, annotations: {lockstep.dev/prune: disabled}}\nvalue: 1\n", configMap("a", "x: one"))
		r.mustComplete()
		r.use("1.0.8", configMap("b", "x: one"))
		r.restart()
		r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if strings.HasPrefix(req.URL.Path, "/apis/scheduling.k8s.io") {
				return answer(http.StatusForbidden, "Forbidden", "no"), nil
			}
			return next.RoundTrip(req)
		})
		r.mustComplete()
		r.get(configMaps, r.ns, "a")
		if r.report().PruneHeld == "" || r.report().Objects.Owed == 0 {
			t.Errorf("got %+v, want it to say what holds the removal", r.report())
		}
		r.wire.setFault(nil)
		r.mustComplete()
		r.wantGone(configMaps, r.ns, "a")
	})
}
