package reconcile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/report"
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// preview previews as a node does that never led, and fails the test if a
// request might have written.
func (r *rig) preview() report.Preview {
	r.t.Helper()
	other, err := reconcile.NewForSet(r.cfg, "set", r.parentNS)
	if err != nil {
		r.t.Fatal(err)
	}
	r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
		if req.Method != http.MethodGet && !slices.Equal(req.URL.Query()["dryRun"], []string{"All"}) || req.Method == http.MethodDelete {
			r.t.Errorf("%s %s would write", req.Method, req.URL)
			return nil, http.ErrAbortHandler
		}
		if req.Method == http.MethodPut {
			r.t.Errorf("PUT %s needs the right to update, which sidecars do not have", req.URL)
			return nil, http.ErrAbortHandler
		}
		return next.RoundTrip(req)
	})
	defer r.wire.setFault(nil)
	out, err := other.Preview(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// actions lists what is to be done with the objects of the bundle, one a line.
func actions(p report.Preview) string {
	var out []string
	for _, o := range p.Objects {
		if !strings.Contains(o.Name, "-fence.") {
			out = append(out, fmt.Sprintf("%s %s %s", o.Action, o.Kind, o.Name))
		}
	}
	return strings.Join(out, "\n")
}

func find(t *testing.T, p report.Preview, name string) report.Previewed {
	t.Helper()
	i := slices.IndexFunc(p.Objects, func(o report.Previewed) bool { return o.Name == name })
	if i < 0 {
		t.Fatalf("there is no %s in\n%s", name, actions(p))
	}
	return p.Objects[i]
}

// bare is a live object without what only the server and Lockstep set.
func bare(obj *unstructured.Unstructured) map[string]any {
	out := obj.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	annotations := out.GetAnnotations()
	for name := range annotations {
		if strings.HasPrefix(name, "lockstep.dev/") {
			delete(annotations, name)
		}
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	out.SetAnnotations(annotations)
	return out.Object
}

func wantActions(t *testing.T, p report.Preview, want ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(want, "\n"), actions(p)); diff != "" {
		t.Errorf("preview differs from what is wanted (-want +got):\n%s", diff)
	}
}

func priorityClass(name string, value int) string {
	return fmt.Sprintf("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: %s}\nvalue: %d\nglobalDefault: false\n", name, value)
}

func TestPreviewTellsWhatThePassDoes(t *testing.T) {
	r := newRig(t)
	class := r.ns + "-class"
	r.use("1.0.0", configMap("changed", `a: "1"`, `b: "2"`, `shared: "3"`), configMap("dropped"), configMap("same", `a: "1"`), priorityClass(class, 10))
	r.mustComplete()
	// Another client has a field, too, that the bundle is going to drop.
	r.patch(configMaps, r.ns, "changed", `{"data":{"shared":"4","theirs":"5"}}`)
	r.create(configMaps, r.ns, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"there"},"data":{"a":"0","x":"1"}}`)

	r.use("1.1.0", configMap("changed", `a: "9"`), configMap("same", `a: "1"`), configMap("new"), configMap("there", `a: "1"`),
		priorityClass(class, 20),
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wrong, namespace: NS, annotations: {lockstep.dev/required: \"false\"}}\ndata: {a: [1]}\n")
	p := r.preview()
	wantActions(t, p,
		"changed ConfigMap changed", "created ConfigMap new", "unchanged ConfigMap same", "changed ConfigMap there",
		"failed ConfigMap wrong", "recreated PriorityClass "+class, "pruned ConfigMap dropped")
	if o := find(t, p, class); !strings.Contains(o.Message, "value: Forbidden: may not be changed in an update") {
		t.Errorf("got %q, want why it is recreated", o.Message)
	}
	if o := find(t, p, "wrong"); o.Message == "" || o.Required {
		t.Errorf("got %+v, want why it fails", o)
	}

	before := map[string]map[string]any{
		"changed": bare(r.get(configMaps, r.ns, "changed")), "there": bare(r.get(configMaps, r.ns, "there")),
		class: bare(r.get(priorityClasses, "", class)), "dropped": bare(r.get(configMaps, r.ns, "dropped")),
	}
	if _, err := r.pass(); err != nil {
		t.Fatal(err)
	}
	after := map[string]map[string]any{
		"changed": bare(r.get(configMaps, r.ns, "changed")), "there": bare(r.get(configMaps, r.ns, "there")),
		"new": bare(r.get(configMaps, r.ns, "new")), class: bare(r.get(priorityClasses, "", class)),
	}
	r.wantGone(configMaps, r.ns, "dropped")
	for _, name := range []string{"changed", "there", "new", "dropped", class} {
		o := find(t, p, name)
		if diff := cmp.Diff(before[name], o.Live); diff != "" {
			t.Errorf("%s as it was (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(after[name], o.Wanted); diff != "" {
			t.Errorf("%s as it became (-want +got):\n%s", name, diff)
		}
	}
	wantActions(t, r.preview(),
		"unchanged ConfigMap changed", "unchanged ConfigMap new", "unchanged ConfigMap same", "unchanged ConfigMap there",
		"failed ConfigMap wrong", "unchanged PriorityClass "+class)
}

func TestPreviewOfWhatComesInOrder(t *testing.T) {
	r := newRig(t)
	group := r.ns + ".example.com"
	definition := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.%[1]s"},
"spec":{"group":%[1]q,"scope":"Cluster","names":{"plural":"widgets","kind":"Widget"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, group)
	r.use("1.0.0", definition, fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"first"}}`, group),
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"NS-more"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"in-it","namespace":"NS-more"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"nowhere","namespace":"NS-none"}}`,
		fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Gadget","metadata":{"name":"unknown"}}`, group))
	p := r.preview()
	wantActions(t, p, "created Namespace "+r.ns+"-more", "created CustomResourceDefinition widgets."+group,
		"created ConfigMap in-it", "failed ConfigMap nowhere", "failed Gadget unknown", "created Widget first")
	for name, part := range map[string]string{"first": "its kind comes with the bundle", "in-it": "its namespace comes with the bundle", "unknown": "does not know the kind"} {
		if o := find(t, p, name); !strings.Contains(o.Message, part) {
			t.Errorf("%s: got %q, want %q in it", name, o.Message, part)
		}
	}
}

// kettles makes the manifests of a CRD and of objects in a group of their own.
type kettles struct{ group string }

// crd is a CRD with the properties of the spec of its objects.
func (k kettles) crd(kind, labels, properties string) string {
	plural := strings.ToLower(kind) + "s"
	return fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %[2]s.%[1]s, labels: {%[4]s}}\n"+
		"spec: {group: %[1]s, scope: Namespaced, names: {plural: %[2]s, kind: %[3]s}, versions: [{name: v1, served: true, storage: true, "+
		"schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%[5]s}}}}}}]}\n", k.group, plural, kind, labels, properties)
}

func (k kettles) object(kind, name, spec string) string {
	return fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: %s, namespace: NS}\nspec: {%s}\n", k.group, kind, name, spec)
}

// guard is a policy that refuses a Kettle with more than 5 liters and the name guarded.
func (k kettles) guard() string {
	return "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: NS-guard}\n" +
		"spec: {matchConstraints: {resourceRules: [{apiGroups: [" + k.group + "], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [kettles]}]}, " +
		"validations: [{expression: \"object.metadata.name != 'guarded' || object.spec.liters <= 5\"}]}\n---\n" +
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: NS-guard}\nspec: {policyName: NS-guard, validationActions: [Deny]}\n"
}

// A schema of the release before refuses objects that the leader can write once it has written
// their CRD.
func TestPreviewOfAChangedCRD(t *testing.T) {
	r := newRig(t)
	k := kettles{r.ns + ".example.com"}
	const narrow = `liters: {type: integer, maximum: 10}, color: {type: string, default: red}, old: {type: string}`
	const wide = `liters: {type: integer, maximum: 20}, color: {type: string, default: red}, old: {type: string}, lid: {type: boolean}`
	pots := k.crd("Pot", "", narrow)
	r.use("1.0.0", k.crd("Kettle", "", narrow), pots, k.guard(), k.object("Kettle", "big", "liters: 3, old: x"),
		k.object("Kettle", "full", "liters: 3"), k.object("Kettle", "guarded", "liters: 3"), k.object("Pot", "pot", "liters: 3"))
	r.mustComplete()
	served := schema.GroupVersionResource{Group: k.group, Version: "v1", Resource: "kettles"}
	await(t, "the policy to be in force", func() error {
		_, err := r.api.Resource(served).Namespace(r.ns).Patch(t.Context(), "guarded", types.MergePatchType, []byte(`{"spec":{"liters":6}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("it refuses nothing")
		}
		return nil
	})

	use := func(release, definition string, more ...string) {
		r.use(release, append(more, definition, pots, k.guard(), k.object("Kettle", "big", "liters: 3, lid: true"), k.object("Kettle", "full", "liters: 15"),
			k.object("Kettle", "new", "lid: true"))...)
	}
	rest := []string{"unchanged ValidatingAdmissionPolicy " + r.ns + "-guard", "unchanged ValidatingAdmissionPolicyBinding " + r.ns + "-guard"}
	refused := []string{k.object("Kettle", "guarded", "liters: 6"), k.object("Pot", "pot", "liters: 3, lid: true")}
	use("1.1.0", k.crd("Kettle", "a: b", narrow), refused...) // the schema stays
	wantActions(t, r.preview(), append([]string{"changed CustomResourceDefinition kettles." + k.group, "unchanged CustomResourceDefinition pots." + k.group,
		"failed Kettle big", "failed Kettle full", "failed Kettle guarded", "failed Kettle new", "failed Pot pot"}, rest...)...)
	use("1.1.0", k.crd("Kettle", "", wide), refused...)
	p := r.preview()
	wantActions(t, p, append([]string{"changed CustomResourceDefinition kettles." + k.group, "unchanged CustomResourceDefinition pots." + k.group,
		"changed Kettle big", "changed Kettle full", "failed Kettle guarded", "created Kettle new", "failed Pot pot"}, rest...)...)
	for _, name := range []string{"big", "full", "new"} {
		if o := find(t, p, name); o.Message != "its CRD changes with the bundle, so that the server could not check it yet" {
			t.Errorf("%s: got %q", name, o.Message)
		}
	}

	use("1.1.0", k.crd("Kettle", "", wide), k.object("Kettle", "guarded", "liters: 3"), k.object("Pot", "pot", "liters: 3"))
	await(t, "the server to know the new schema", func() error {
		if out, err := r.pass(); err != nil || !out.Complete {
			return fmt.Errorf("got %w and %+v", err, r.report())
		}
		return nil
	})
	for _, name := range []string{"big", "full"} {
		if diff := cmp.Diff(bare(r.get(served, r.ns, name)), find(t, p, name).Wanted); diff != "" {
			t.Errorf("%s as it became (-want +got):\n%s", name, diff)
		}
	}
}

func TestPreviewKeepsTheBrakes(t *testing.T) {
	r := newRig(t)
	var many []string
	for i := range 12 {
		many = append(many, configMap(fmt.Sprintf("m%02d", i)))
	}
	r.use("1.0.0", many...)
	r.mustComplete()
	r.use("1.1.0", many[:2]...)
	p := r.preview()
	if p.Count(report.ActionHold) != 10 || p.Count(report.ActionPrune) != 0 || !strings.Contains(p.PruneHeld, "drops 10 of 12 objects") {
		t.Errorf("got %q and\n%s", p.PruneHeld, actions(p))
	}
	r.cfg.AllowMassPrune = true
	if p := r.preview(); p.Count(report.ActionPrune) != 10 || p.PruneHeld != "" {
		t.Errorf("got %q and\n%s", p.PruneHeld, actions(p))
	}
	r.use("1.1.0", many[0], "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wrong, namespace: NS}\ndata: {a: [1]}\n")
	if p := r.preview(); p.Count(report.ActionPrune) != 0 || p.PruneHeld != "a required object fails" {
		t.Errorf("got %q and\n%s", p.PruneHeld, actions(p))
	}
}

func TestPreviewHidesSecrets(t *testing.T) {
	r := newRig(t)
	secret := func(name, values string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: NS}\n%s\n", name, values)
	}
	r.use("1.0.0", secret("kept", "data: {same: aHVudGVyMQ==, other: aHVudGVyMg==, gone: aHVudGVyMw==}"))
	r.mustComplete()
	r.patch(secrets, r.ns, "kept", `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hunter4"}}}`)
	r.use("1.0.0", secret("kept", "data: {same: aHVudGVyMQ==, other: aHVudGVyNQ==, more: aHVudGVyNg==}"), secret("new", "stringData: {a: hunter7}"),
		"apiVersion: v1\nkind: Secret\nmetadata: {name: unborn, namespace: NS-x}\nstringData: {a: hunter8}\n",
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"NS-x"}}`)
	p := r.preview()
	kept := find(t, p, "kept")
	got := fmt.Sprint(kept.Live["data"], kept.Wanted["data"])
	if want := "map[gone:*** other:*** (before) same:***] map[more:*** other:*** (after) same:***]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	all, err := json.Marshal(p)
	if err != nil || !strings.Contains(string(all), "(before)") {
		t.Fatalf("got %s, %v", all, err)
	}
	for _, word := range []string{"hunter", "aHVudGVy"} {
		if strings.Contains(string(all), word) {
			t.Errorf("the preview shows: %s", all)
		}
	}
	if len(p.Objects) != 4+fenceObjects {
		t.Errorf("got %s", actions(p))
	}
}

func TestPreviewWithoutABundle(t *testing.T) {
	r := newRig(t)
	if p, err := r.reconciler.Preview(t.Context()); err == nil {
		t.Errorf("got %+v, want an error", p)
	}
}

func TestPreviewWithoutAnAPI(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a"))
	r.wire.setFault(func(*http.Request, http.RoundTripper) (*http.Response, error) {
		return nil, fmt.Errorf("connection refused")
	})
	if _, err := r.reconciler.Preview(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}
