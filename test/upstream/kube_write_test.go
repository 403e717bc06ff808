package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const preconditions = "the preconditions of each write (docs/protocol-objects.md#stale-writes)"

// Relied on: an apply with a stale resourceVersion is refused, forced or not, with
// a change or without one; an apply with the right uid and resourceVersion passes
// and leaves no trace of them (reconcile/apply.go, update).
func TestApply_resourceVersion(t *testing.T) {
	r := newKubeRig(t)
	maps := r.configMaps()
	old := r.must(r.apply(maps, configMap("a", "1", nil), "m"))
	now := r.must(r.apply(maps, configMap("a", "2", nil), "m"))

	for _, c := range []struct{ what, value, version string }{
		{"a change", "3", old.GetResourceVersion()},
		{"no change", "2", old.GetResourceVersion()},
	} {
		_, err := r.apply(maps, configMap("a", c.value, map[string]any{"resourceVersion": c.version}), "m")
		if code(err) != http.StatusConflict {
			broken(t, "an apply with a stale resourceVersion and "+c.what+" gets "+said(err), preconditions)
		}
	}
	with := map[string]any{"resourceVersion": now.GetResourceVersion(), "uid": string(now.GetUID())}
	got, err := r.apply(maps, configMap("a", "3", with), "m")
	if err != nil {
		broken(t, "an apply with the right uid and resourceVersion gets "+said(err), preconditions)
		return
	}
	for _, entry := range got.GetManagedFields() {
		fields := entry.FieldsV1.GetRawString()
		if entry.Manager == "m" && fields != `{"f:data":{"f:value":{}}}` {
			broken(t, "uid or resourceVersion is recorded as a managed field: "+fields, "that our field manager owns only what the bundle says")
		}
	}
}

// Known: "0" is no precondition. Nothing of ours may send it: an object that was
// read always has another (reconcile/apply.go, update).
func TestApply_resourceVersionZero(t *testing.T) {
	r := newKubeRig(t)
	r.must(r.apply(r.configMaps(), configMap("a", "1", nil), "m"))
	for _, version := range []string{"0", ""} {
		_, err := r.apply(r.configMaps(), configMap("a", "v"+version, map[string]any{"resourceVersion": version}), "m")
		if err != nil {
			gone(t, fmt.Sprintf("an apply with resourceVersion %q gets %s", version, said(err)), "the caution about it")
		}
	}
}

// Worked around: an apply with a resourceVersion and no uid silently creates an
// object that is missing. Ours always names the uid too, and creates by POST alone
// (reconcile/apply.go, update and create).
func TestApply_resourceVersionAloneCreates(t *testing.T) {
	r := newKubeRig(t)
	for name, c := range map[string]struct {
		api dynamic.ResourceInterface
		obj *unstructured.Unstructured
	}{
		"ConfigMap":   {r.configMaps(), configMap("missing", "1", map[string]any{"resourceVersion": "7"})},
		"ClusterRole": {r.api.Resource(clusterRoles), object("rbac.authorization.k8s.io/v1", "ClusterRole", r.ns, map[string]any{"resourceVersion": "7"})},
		"Namespace":   {r.api.Resource(namespaces), object("v1", "Namespace", r.ns+"-missing", map[string]any{"resourceVersion": "7"})},
	} {
		if _, err := r.apply(c.api, c.obj, "m"); err != nil {
			gone(t, "an apply of a missing "+name+" with a resourceVersion gets "+said(err), "the uid in each apply")
		}
	}
}

// Relied on: an apply with a uid never creates, and never changes an object of
// another uid: one that was deleted and made again meanwhile (reconcile/apply.go,
// update).
func TestApply_uid(t *testing.T) {
	r := newKubeRig(t)
	uid := map[string]any{"uid": "00000000-0000-0000-0000-000000000001"}
	if _, err := r.apply(r.configMaps(), configMap("missing", "1", uid), "m"); code(err) != http.StatusConflict {
		broken(t, "an apply of a missing object with a uid gets "+said(err), preconditions)
	}
	if _, err := r.configMaps().Get(t.Context(), "missing", metav1.GetOptions{}); code(err) != http.StatusNotFound {
		broken(t, "an apply with a uid created the object", preconditions)
	}
	r.must(r.apply(r.configMaps(), configMap("a", "1", nil), "m"))
	// A conflict is read again; "invalid" looks like an immutable field, which
	// reconcile/apply.go, mayRecreate, knows.
	_, err := r.apply(r.configMaps(), configMap("a", "2", uid), "m")
	if c := code(err); c != http.StatusConflict && c != http.StatusUnprocessableEntity {
		broken(t, "an apply with a wrong uid gets "+said(err), preconditions)
	}
}

// Relied on: an apply of a field that its kind does not have is refused without strict validation. That looks for
// nothing but names that are there twice, and parses the whole body as YAML again for it (internal/kube, Client.Apply).
func TestApply_unknownFields(t *testing.T) {
	r := newKubeRig(t)
	const rule = `"apiGroups":[""],"resources":["pods"],"verbs":["get"]`
	for fields, refused := range map[string]bool{
		`"rules":[{` + rule + `}]`:                 false,
		`"rules":[{` + rule + `,"verbs":["get"]}]`: false, // the last one counts
		`"rules":[{` + rule + `,"unknown":1}]`:     true,
		`"rules":[],"unknown":[]`:                  true,
		`"metadata":{"name":"NAME","unknown":1}`:   true,
	} {
		body := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"NAME"},` + fields + `}`
		_, err := r.api.Resource(clusterRoles).Patch(t.Context(), r.ns, types.ApplyPatchType, []byte(strings.ReplaceAll(body, "NAME", r.ns)),
			metav1.PatchOptions{FieldManager: "m", Force: new(true), FieldValidation: metav1.FieldValidationIgnore})
		if (err != nil) != refused {
			broken(t, "an apply of "+fields+" gets "+said(err), "that a misspelt field is never lost")
		}
	}
}

// Relied on: POST only creates. It is the only way to write that does.
func TestCreate_onlyCreates(t *testing.T) {
	r := newKubeRig(t)
	r.must(r.configMaps().Create(t.Context(), configMap("a", "1", nil), metav1.CreateOptions{FieldManager: "m"}))
	_, err := r.configMaps().Create(t.Context(), configMap("a", "2", nil), metav1.CreateOptions{FieldManager: "m"})
	if code(err) != http.StatusConflict {
		broken(t, "a second POST of an object gets "+said(err), preconditions)
	}
	_, err = r.configMaps().Create(t.Context(), configMap("b", "1", map[string]any{"resourceVersion": "7"}), metav1.CreateOptions{})
	if err == nil {
		broken(t, "a POST with a resourceVersion passes", "that a precondition is never ignored")
	}
}

// Relied on: a deletion with a stale resourceVersion or a wrong UID is refused.
func TestDelete_preconditions(t *testing.T) {
	r := newKubeRig(t)
	old := r.must(r.apply(r.configMaps(), configMap("a", "1", nil), "m"))
	now := r.must(r.apply(r.configMaps(), configMap("a", "2", nil), "m"))
	stale, version := old.GetResourceVersion(), now.GetResourceVersion()
	wrong, uid := types.UID("00000000-0000-0000-0000-000000000001"), now.GetUID()
	for _, c := range []struct {
		what string
		pre  metav1.Preconditions
		want int
	}{
		{"a stale resourceVersion", metav1.Preconditions{UID: &uid, ResourceVersion: &stale}, http.StatusConflict},
		{"a wrong uid", metav1.Preconditions{UID: &wrong, ResourceVersion: &version}, http.StatusConflict},
		{"the right ones", metav1.Preconditions{UID: &uid, ResourceVersion: &version}, http.StatusOK},
		{"nothing left to delete", metav1.Preconditions{UID: &uid, ResourceVersion: &version}, http.StatusNotFound},
	} {
		err := r.configMaps().Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: &c.pre})
		if code(err) != c.want {
			broken(t, fmt.Sprintf("a deletion with %s gets %s, not %d", c.what, said(err), c.want), preconditions)
		}
	}
}

// Relied on: an apply of a field that another manager owns is refused unless it is
// forced, so that we never change one by accident (docs/protocol-objects.md#apply).
func TestApply_conflicts(t *testing.T) {
	r := newKubeRig(t)
	r.must(r.apply(r.configMaps(), configMap("a", "1", nil), "other"))
	_, err := patch(r, r.configMaps(), configMap("a", "2", nil), metav1.PatchOptions{FieldManager: "m"})
	if code(err) != http.StatusConflict {
		broken(t, "an apply that is not forced takes over another manager's field: "+said(err), "that ownership of fields is kept")
	}
}

// Relied on: an apply that changes nothing writes nothing: not the object, not its
// times, not etcd. So a pass over a set that is in place costs no write, and wakes
// no watch (the invariant NoFight). The same content from another manager is a
// write.
func TestApply_withoutChangeWritesNothing(t *testing.T) {
	r := newKubeRig(t)
	first := r.must(r.apply(r.configMaps(), configMap("a", "1", nil), "m"))
	before := r.modRevision("a")
	for range 3 {
		again := r.must(r.apply(r.configMaps(), configMap("a", "1", nil), "m"))
		if again.GetResourceVersion() != first.GetResourceVersion() {
			broken(t, "an apply without a change gives the object a new resourceVersion", "that a leader at rest writes nothing (NoFight)")
		}
		if now := r.modRevision("a"); now != before {
			broken(t, "an apply without a change is stored", "that a leader at rest writes nothing (NoFight)")
		}
	}
	r.must(r.apply(r.configMaps(), configMap("a", "1", nil), "other"))
	if r.modRevision("a") == before {
		broken(t, "what another manager applied is not noted", "what reconcile reads from the managed fields")
	}
}
