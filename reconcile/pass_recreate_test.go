package reconcile_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// frozen is a manifest with %s for a field that its kind does not let change.
type frozen struct {
	name     string
	manifest string
	from, to string
}

// Of all built-in kinds with such fields that a platform may bring, those that
// TestImmutable has not.
func moreFrozen() []frozen {
	const pod = "{metadata: {labels: {app: one}}, spec: {containers: [{name: c, image: i}]}}"
	return []frozen{
		{"CSIDriver volumeLifecycleModes", "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: NS-a}\nspec: {volumeLifecycleModes: [%s]}\n", "Persistent", "Ephemeral"},
		{"RoleBinding roleRef kind", "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: NS-r, namespace: NS}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: view}\n", "ClusterRole", "Role"},
		{"IngressClass controller", "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: NS-x}\nspec: {controller: %s}\n", "x.test/one", "x.test/two"},
		{"Secret immutable", "apiVersion: v1\nkind: Secret\nmetadata: {name: i, namespace: NS}\nimmutable: true\nstringData: {x: %s}\n", "one", "two"},
		{"ConfigMap immutable itself", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: im, namespace: NS}\nimmutable: %s\n", "true", "false"},
		{"DaemonSet selector", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: x, namespace: NS}\nspec: {selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: c, image: i}]}}}\n", "one", "two"},
		{"ReplicaSet selector", "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: x, namespace: NS}\nspec: {selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: c, image: i}]}}}\n", "one", "two"},
		{"Job completionMode", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: y, namespace: NS}\nspec: {completions: 2, completionMode: %s, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n", "Indexed", "NonIndexed"},
		{"Pod", "apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: NS}\nspec: {hostNetwork: %s, automountServiceAccountToken: false, containers: [{name: c, image: i}]}\n", "true", "false"},
		{"ResourceQuota scopes", "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: x, namespace: NS}\nspec: {hard: {pods: 5}, scopes: [%s]}\n", "Terminating", "NotTerminating"},
		{"EndpointSlice addressType", "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: x, namespace: NS}\naddressType: %s\nendpoints: []\n", "IPv4", "FQDN"},
		{"ResourceClaimTemplate spec", "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: x, namespace: NS}\nspec: {spec: {devices: {requests: [{name: %s, exactly: {deviceClassName: x.test}}]}}}\n", "one", "two"},
		{"ResourceClaim spec", "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: x, namespace: NS}\nspec: {devices: {requests: [{name: %s, exactly: {deviceClassName: x.test}}]}}\n", "one", "two"},
		{"ResourceSlice driver", "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: NS-x}\nspec: {driver: %s, pool: {name: p, generation: 1, resourceSliceCount: 1}, allNodes: true, devices: []}\n", "x.test", "y.test"},
		{"ServiceCIDR cidrs", "apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: NS-x}\nspec: {cidrs: [%s]}\n", "10.77.0.0/24", "10.78.0.0/24"},
		{"CSIStorageCapacity storageClassName", "apiVersion: storage.k8s.io/v1\nkind: CSIStorageCapacity\nmetadata: {name: x, namespace: NS}\nstorageClassName: %s\nnodeTopology: {matchLabels: {a: b}}\n", "one", "two"},
		{"CSIStorageCapacity nodeTopology", "apiVersion: storage.k8s.io/v1\nkind: CSIStorageCapacity\nmetadata: {name: y, namespace: NS}\nstorageClassName: x\nnodeTopology: {matchLabels: {a: %s}}\n", "one", "two"},
		{"CSINode drivers", "apiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {name: NS-x}\nspec: {drivers: [{name: x.test, nodeID: %s}]}\n", "one", "two"},
		{"VolumeAttachment spec", "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {name: NS-x}\nspec: {attacher: %s, nodeName: n, source: {persistentVolumeName: v}}\n", "x.test", "y.test"},
		{"IPAddress parentRef", "apiVersion: networking.k8s.io/v1\nkind: IPAddress\nmetadata: {name: 10.99.0.1}\nspec: {parentRef: {resource: services, namespace: NS, name: %s}}\n", "one", "two"},
		{"ControllerRevision data", "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: x, namespace: NS}\nrevision: 1\ndata: {x: %s}\n", "one", "two"},
		{"ConfigMap immutable, binaryData", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ib, namespace: NS}\nimmutable: true\nbinaryData: {x: %s}\n", "b25l", "dHdv"},
		{"Service loadBalancerClass", "apiVersion: v1\nkind: Service\nmetadata: {name: l, namespace: NS}\nspec: {type: LoadBalancer, loadBalancerClass: %s, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]}\n", "x.test/one", "x.test/two"},
		{"Job completions", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: z, namespace: NS}\nspec: {completions: %s, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n", "2", "3"},
		{"Job podFailurePolicy", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: p, namespace: NS}\nspec: {podFailurePolicy: {rules: [{action: %s, onPodConditions: [{type: DisruptionTarget}]}]}, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n", "Ignore", "Count"},
		{"Job managedBy", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: m, namespace: NS}\nspec: {managedBy: x.test/%s, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n", "one", "two"},
		{"custom resource, a rule with words", ruled("worded", ", message: Value is immutable") + "---\napiVersion: NS.test/v1\nkind: Worded\nmetadata: {name: NS-x}\nspec: {size: %s}\n", "one", "two"},
		{"custom resource, a rule without words", ruled("wordless", "") + "---\napiVersion: NS.test/v1\nkind: Wordless\nmetadata: {name: NS-x}\nspec: {size: %s}\n", "one", "two"},
		{"Deployment selector, its template as it was", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: y, namespace: NS}\nspec: {selector: {matchExpressions: [{key: app, operator: %s}]}, template: " + pod + "}\n", "Exists", "In, values: [one]"},
	}
}

// ruled is a CRD of which a field cannot be changed, by a rule.
func ruled(name, more string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.NS.test}
spec:
  group: NS.test
  scope: Cluster
  names: {plural: %[1]ss, singular: %[1]s, kind: %[2]s}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string, x-kubernetes-validations: [{rule: self == oldSelf%[3]s}]}}}}}}
`, name, strings.ToUpper(name[:1])+name[1:], more)
}

// TestImmutableKinds is TestImmutable one by one, so that a kind whose words a
// new Kubernetes changes is named.
func TestImmutableKinds(t *testing.T) {
	r := newRig(t)
	for i, tt := range moreFrozen() {
		t.Run(tt.name, func(t *testing.T) {
			r.use(fmt.Sprintf("1.%d.0", i), configMap("stays", "x: one"), fmt.Sprintf(tt.manifest, tt.from))
			if out, err := r.pass(); err != nil || !out.Complete {
				t.Fatalf("got %v, %+v", err, r.report())
			}
			r.use(fmt.Sprintf("1.%d.1", i), configMap("stays", "x: one"), fmt.Sprintf(tt.manifest, tt.to))
			if out, err := r.pass(); err != nil || !out.Complete {
				t.Fatalf("got %v, %+v", err, r.report())
			}
			if got := r.wire.sent("DELETE"); len(got) != 1 {
				t.Errorf("got deletions %q, want one: the field is not immutable any more", got)
			}
		})
	}
}

// What is deleted to be created again is the very object that was read: one that
// another client changed, or created, meanwhile is read again first.
func TestRecreatePreconditions(t *testing.T) {
	class := "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-x}\nvalue: %d\n"
	for name, meddle := range map[string]func(r *rig){
		"changed": func(r *rig) { r.patch(priorityClasses, "", r.ns+"-x", `{"metadata":{"labels":{"a":"b"}}}`) },
		"deleted and created by another client": func(r *rig) {
			r.delete(priorityClasses, "", r.ns+"-x")
			r.create(priorityClasses, "", `{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"NS-x"},"value":7}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.use("1.0.0", fmt.Sprintf(class, 1))
			r.mustComplete()
			r.use("1.0.1", fmt.Sprintf(class, 2))
			var code atomic.Int64
			r.wire.once(isVerb(http.MethodDelete, "/priorityclasses/"), func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
				if err := r.meanwhile(meddle); err != nil {
					return nil, err
				}
				resp, err := next.RoundTrip(req)
				if err == nil {
					code.Store(int64(resp.StatusCode))
				}
				return resp, err
			})
			r.mustComplete()
			if got := code.Load(); got != http.StatusConflict {
				t.Errorf("got %d for the deletion of an object that was %s meanwhile, want 409", got, name)
			}
			if got := r.get(priorityClasses, "", r.ns+"-x").Object["value"]; got != int64(2) {
				t.Errorf("got value %v, want 2", got)
			}
		})
	}
}

// unaskedNever are kinds whose objects hold what no creation brings back.
func unaskedNever() []struct {
	frozen
	gvr        schema.GroupVersionResource
	namespaced bool
	object     string
} {
	claims := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	volumes := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}
	sets := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	return []struct {
		frozen
		gvr        schema.GroupVersionResource
		namespaced bool
		object     string
	}{
		{frozen{"StatefulSet serviceName", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: x, namespace: NS, annotations: {a: b}}\nspec: {serviceName: %s, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: i}]}}}\n", "one", "two"}, sets, true, "x"},
		{frozen{"PersistentVolume source", "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: NS-x, annotations: {a: b}}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: %s}}\n", "/one", "/two"}, volumes, false, "-x"},
		{frozen{"PersistentVolumeClaim class", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: x, namespace: NS, annotations: {a: b}}\nspec: {storageClassName: %s, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n", "one", "two"}, claims, true, "x"},
		{frozen{"CustomResourceDefinition scope", strings.Replace(strings.Replace(crd, "scope: Namespaced", "scope: %s", 1), "metadata: {", "metadata: {annotations: {a: b}, ", 1), "Namespaced", "Cluster"}, crds, false, "widgets.NS.test"},
	}
}

func TestNeverRecreatedUnasked(t *testing.T) {
	r := newRig(t)
	for i, tt := range unaskedNever() {
		t.Run(tt.name, func(t *testing.T) {
			ns, name := "", strings.NewReplacer("-x", r.ns+"-x", "NS", r.ns).Replace(tt.object)
			if tt.namespaced {
				ns = r.ns
			}
			enabled := strings.Replace(tt.manifest, "a: b", "lockstep.dev/recreate: enabled", 1)
			r.use(fmt.Sprintf("1.%d.0", i), configMap("stays", "x: one"), fmt.Sprintf(tt.manifest, tt.from))
			r.mustComplete()
			uid := r.get(tt.gvr, ns, name).GetUID()

			r.use(fmt.Sprintf("1.%d.1", i), configMap("stays", "x: one"), fmt.Sprintf(tt.manifest, tt.to))
			out, err := r.pass()
			if err != nil || out.Complete || len(r.report().Failures) != 1 || !strings.Contains(r.report().Failures[0].Message, "lockstep.dev/recreate") {
				t.Fatalf("got %v, %+v, want one failure that names the annotation", err, r.report())
			}
			if got := r.wire.sent("DELETE"); len(got) > 0 {
				t.Errorf("got deletions %q unasked", got)
			}

			r.use(fmt.Sprintf("1.%d.2", i), configMap("stays", "x: one"), fmt.Sprintf(enabled, tt.to))
			if out, err := r.pass(); err != nil || !out.Complete && !strings.Contains(r.report().Failures[0].Message, "waits for its finalizers") {
				t.Fatalf("got %v, %+v, want it recreated, or waiting for its finalizers", err, r.report())
			}
			r.dropFinalizers(tt.gvr, ns, name, uid)
			r.restart() // the next leader finishes it
			r.mustComplete()
			if got := r.get(tt.gvr, ns, name).GetUID(); got == uid {
				t.Error("the object was not recreated although the annotation asks for it")
			}
		})
	}
}

// dropFinalizers lets an object go that the controllers of a whole cluster would
// let go.
func (r *rig) dropFinalizers(gvr schema.GroupVersionResource, ns, name string, uid types.UID) {
	r.t.Helper()
	obj := r.get(gvr, ns, name)
	if obj.GetUID() == uid && obj.GetDeletionTimestamp() != nil {
		r.patch(gvr, ns, name, `{"metadata":{"finalizers":null}}`)
	}
}

// A class that volumes use is kept by a finalizer, which says so until it goes.
func TestRecreateWaitsForFinalizers(t *testing.T) {
	r := newRig(t)
	classes := schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "volumeattributesclasses"}
	for i, field := range []string{"driverName: %s\nparameters: {a: b}\n", "driverName: x.test\nparameters: {type: %s}\n"} {
		manifest := fmt.Sprintf("apiVersion: storage.k8s.io/v1\nkind: VolumeAttributesClass\nmetadata: {name: NS-%d}\n", i) + field
		name := fmt.Sprintf("%s-%d", r.ns, i)
		r.use(fmt.Sprintf("1.%d.0", i), configMap("stays", "x: one"), fmt.Sprintf(manifest, "one"))
		r.mustComplete()
		uid := r.get(classes, "", name).GetUID()
		r.use(fmt.Sprintf("1.%d.1", i), configMap("stays", "x: one"), fmt.Sprintf(manifest, "two"))
		if out, err := r.pass(); err != nil || out.Complete || !strings.Contains(r.report().Failures[0].Message, `waits for its finalizers ["kubernetes.io/vac-protection"]`) {
			t.Fatalf("got %v, %+v, want it to say what it waits for", err, r.report())
		}
		r.dropFinalizers(classes, "", name, uid)
		r.restart()
		r.mustComplete()
		if r.get(classes, "", name).GetUID() == uid {
			t.Error("got the old object, want a new one")
		}
	}
}
