package reconcile_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// lostVersion is a CRD whose second version comes and goes, and an object.
func lostVersion(version, more, fields string) string {
	text := `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: leavers.NS.test}
spec:
  group: NS.test
  scope: Namespaced
  names: {plural: leavers, singular: leaver, kind: Leaver, listKind: LeaverList}
  versions:
`
	one := `  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}%s}}}}}}
`
	text += fmt.Sprintf(one, "v1", true, more)
	if version == "v2" {
		text += fmt.Sprintf(one, "v2", false, more)
	}
	return text + "---\napiVersion: NS.test/" + version + "\nkind: Leaver\nmetadata: {name: x, namespace: NS}\nspec: {size: 1" + fields + "}\n"
}

// An object that was applied in a version which its CRD has lost since is still applied, and
// the fields that the bundle drops are removed (docs/upstream.md#lost-versions).
func TestLostVersion(t *testing.T) {
	r := newRig(t)
	leavers := schema.GroupVersionResource{Group: strings.ToLower(r.ns) + ".test", Version: "v1", Resource: "leavers"}
	const color = ", color: {type: string}"
	r.use("1.0.0", lostVersion("v1", color, ""))
	r.mustComplete()
	r.use("1.1.0", lostVersion("v2", color, ", color: red"))
	r.mustComplete()
	if got := r.get(leavers, r.ns, "x").Object["spec"]; fmt.Sprint(got) != "map[color:red size:1]" {
		t.Fatalf("got spec %v", got)
	}
	r.patch(leavers, r.ns, "x", `{"metadata":{"labels":{"by": "another"}}}`)
	r.use("1.0.1", lostVersion("v1", color, ""))
	r.mustComplete()
	live := r.get(leavers, r.ns, "x")
	if got := live.Object["spec"]; fmt.Sprint(got) != "map[size:1]" {
		t.Errorf("got spec %v, want that the color was removed", got)
	}
	if got := live.GetLabels()["by"]; got != "another" {
		t.Errorf("got the label of another client %q", got)
	}
	r.mustComplete()
	if got := r.wire.writes(); len(got) > 0 {
		t.Errorf("got the writes %q of a pass that has nothing to do", got)
	}
}
