package rights_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/rights"
)

// load makes a bundle of manifests.
func load(t *testing.T, header string, manifests ...string) *bundle.Bundle {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"bundle.yaml":  "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: acme}\nrelease: 1.0.0\n" + header,
		"objects.yaml": strings.Join(manifests, "\n---\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := bundle.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func of(t *testing.T, b *bundle.Bundle, resolve rights.Resolve) rights.Rights {
	t.Helper()
	r, err := rights.Of(b, resolve)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// texts returns rights as "verb resource.group name @namespace".
func texts(r rights.Rights) []string {
	var out []string
	for _, one := range r.Required() {
		line := one.Verb + " " + one.Resource
		if one.Group != "" {
			line += "." + one.Group
		}
		if one.Name != "" {
			line += " " + one.Name
		}
		if one.Namespace != "" {
			line += " @" + one.Namespace
		}
		out = append(out, line)
	}
	return out
}

const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gees.acme.example}
spec: {group: acme.example, names: {kind: Goose, plural: gees}}`

func TestOf(t *testing.T) {
	for _, test := range []struct {
		name, header string
		manifests    []string
		want         []string
	}{
		{"an object of a namespace that every cluster has", "", []string{"apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: kube-system}"}, []string{
			"list secrets", "watch secrets", "create secrets @kube-system",
			"get secrets a @kube-system", "patch secrets a @kube-system", "delete secrets a @kube-system",
		}},
		{"an object of a namespace that may not exist yet", "", []string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: acme}"}, []string{
			"list configmaps", "watch configmaps", "create configmaps", "get configmaps a", "patch configmaps a", "delete configmaps a",
		}},
		{"objects that are never deleted", "", []string{
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: a}",
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: b, annotations: {lockstep.dev/prune: enabled}}",
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: c}",
		}, []string{
			"list namespaces", "watch namespaces", "create namespaces",
			"get namespaces a", "patch namespaces a", "get namespaces c", "patch namespaces c",
			"get namespaces b", "patch namespaces b", "delete namespaces b",
		}},
		{"a kind whose CRD is in the bundle, and which raises A", "minApiserverRelease: 1.0.0\n", []string{
			crd, "apiVersion: acme.example/v1\nkind: Goose\nmetadata: {name: a, namespace: default}\nspec: {}",
		}, []string{
			"list gees.acme.example", "watch gees.acme.example",
			"list customresourcedefinitions.apiextensions.k8s.io", "watch customresourcedefinitions.apiextensions.k8s.io",
			"create customresourcedefinitions.apiextensions.k8s.io",
			"get customresourcedefinitions.apiextensions.k8s.io gees.acme.example", "patch customresourcedefinitions.apiextensions.k8s.io gees.acme.example",
			"get apiservices.apiregistration.k8s.io v1.acme.example",
			"create gees.acme.example @default", "get gees.acme.example a @default", "patch gees.acme.example a @default", "delete gees.acme.example a @default",
		}},
		{"a role and a binding", "", []string{
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a, namespace: kube-system}\nrules: []",
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: a, namespace: kube-system}\nroleRef: {kind: ClusterRole, name: view}",
		}, []string{
			"list rolebindings.rbac.authorization.k8s.io", "watch rolebindings.rbac.authorization.k8s.io",
			"list roles.rbac.authorization.k8s.io", "watch roles.rbac.authorization.k8s.io",
			"create rolebindings.rbac.authorization.k8s.io @kube-system", "create roles.rbac.authorization.k8s.io @kube-system",
			"get rolebindings.rbac.authorization.k8s.io a @kube-system", "patch rolebindings.rbac.authorization.k8s.io a @kube-system", "delete rolebindings.rbac.authorization.k8s.io a @kube-system",
			"get roles.rbac.authorization.k8s.io a @kube-system", "patch roles.rbac.authorization.k8s.io a @kube-system", "delete roles.rbac.authorization.k8s.io a @kube-system",
			"bind clusterroles.rbac.authorization.k8s.io view @kube-system", "escalate roles.rbac.authorization.k8s.io @kube-system",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := texts(of(t, load(t, test.header, test.manifests...), nil))
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// The API demands more of who writes these kinds than the right to write them.
func TestOf_guarded(t *testing.T) {
	got := texts(of(t, load(t, "", crd,
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: a}\nspec: {paramKind: {apiVersion: acme.example/v1, kind: Goose}}",
		"apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\nmetadata: {name: a}\nspec: {signerName: acme.example/x}",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: a}\nroleRef: {}",
	), nil))
	for _, want := range []string{"get gees.acme.example", "attest signers.certificates.k8s.io acme.example/x"} {
		if !slices.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, "bind ") }) {
		t.Errorf("got %q, want no bind without a role", got)
	}
}

// A kind that the bundle does not define is asked for, or its resource is said to be a guess.
func TestOf_resolve(t *testing.T) {
	b := load(t, "", "apiVersion: acme.example/v1\nkind: Gateway\nmetadata: {name: a}\nspec: {}", "apiVersion: acme.example/v1\nkind: Gateway\nmetadata: {name: b}\nspec: {}")
	r := of(t, b, func(apiVersion, kind string) (string, bool, error) { return kind + "In" + apiVersion, true, nil })
	if got := r.Required()[0].Resource; got != "GatewayInacme.example/v1" || len(r.Guessed) > 0 {
		t.Errorf("got %s, %v", got, r.Guessed)
	}
	for name, resolve := range map[string]rights.Resolve{"no API": nil, "not served": func(string, string) (string, bool, error) { return "", false, nil }} {
		r := of(t, b, resolve)
		if want := []rights.Guess{{APIVersion: "acme.example/v1", Kind: "Gateway", Resource: "gateways"}}; !slices.Equal(r.Guessed, want) || r.Required()[0].Resource != "gateways" {
			t.Errorf("%s: got %v", name, r.Guessed)
		}
		if text := string(r.YAML("g")); !strings.Contains(text, "# A guess: Gateway of acme.example/v1 is \"gateways\".") {
			t.Errorf("%s: got\n%s", name, text)
		}
	}
	if _, err := rights.Of(b, func(string, string) (string, bool, error) { return "", false, errors.New("away") }); err == nil || !strings.Contains(err.Error(), "Gateway: away") {
		t.Errorf("got %v", err)
	}
}

// The two forms have the same objects, whatever the names are.
func TestYAML(t *testing.T) {
	names := []string{"yes", "1", "a:b", `a"b`, "system:x y", "plain", "with.dot", "a-b"}
	manifests := []string{crd, "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: kube-system}"}
	for _, name := range names {
		text, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: "+string(text)+"}\nrules: []")
	}
	for name, b := range map[string]*bundle.Bundle{"many": load(t, "", manifests...), "one": load(t, "", crd)} {
		r := of(t, b, nil)
		for _, group := range []string{"lockstep:sidecars", "yes", "a b: #c"} {
			var got []any
			for document := range strings.SplitSeq(string(r.YAML(group)), "\n---\n") {
				var object any
				if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
					t.Fatalf("%s: %v in\n%s", name, err, document)
				}
				got = append(got, object)
			}
			text, err := json.Marshal(r.Objects(group))
			if err != nil {
				t.Fatal(err)
			}
			var want []any
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
		}
	}
	if text := string(of(t, load(t, "", manifests...), nil).YAML("g")); !strings.Contains(text, "can read every Secret of the cluster") || !strings.Contains(text, "as\n# powerful as a cluster administrator") {
		t.Errorf("got\n%s", text)
	}
}

// Bundles that need the same rights have the same roles. Others, and other groups, have
// others, so that one never replaces the other.
func TestHash(t *testing.T) {
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\ndata: {a: b}"
	r := of(t, load(t, "", object), nil)
	same := of(t, load(t, "", strings.Replace(object, "a: b", "a: c", 1)), nil)
	other := of(t, load(t, "", strings.Replace(object, "name: a", "name: b", 1)), nil)
	if r.Hash("g") != same.Hash("g") || r.Hash("g") == other.Hash("g") || r.Hash("g") == r.Hash("h") {
		t.Errorf("got %s, %s, %s, %s", r.Hash("g"), same.Hash("g"), other.Hash("g"), r.Hash("h"))
	}
	if want := "kubectl delete clusterrolebindings,clusterroles,rolebindings,roles -A -l 'lockstep.dev/rights,lockstep.dev/rights!=" + r.Hash("g") + "'"; r.RemoveOthers("g") != want {
		t.Errorf("got %s", r.RemoveOthers("g"))
	}
}

// What people took out of the written roles is missing; what they wrote in another form is not.
func TestLacking(t *testing.T) {
	r := of(t, load(t, "",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits, namespace: default}\n",
		"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: x}\nvalue: 1\n"), nil)
	written := string(r.YAML("lockstep:sidecars"))
	for name, tt := range map[string]struct {
		manifest string
		want     int // rights
	}{
		"as written":      {written, 0},
		"all of it":       {"kind: ClusterRole\nrules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n", 0},
		"other names":     {strings.ReplaceAll(written, "resourceNames: [x]", "resourceNames: [y]"), 3},
		"no deletion":     {strings.ReplaceAll(written, "get, patch, delete", "get, patch"), 2},
		"a namespace":     {strings.ReplaceAll(written, "namespace: default", "namespace: kube-system"), 4},
		"nothing":         {"", len(r.Required())},
		"no manifest":     {"mine\n", len(r.Required())},
		"bindings":        {strings.ReplaceAll(strings.ReplaceAll(written, "kind: ClusterRole\n", "kind: X\n"), "kind: Role\n", "kind: X\n"), len(r.Required())},
		"damaged at last": {written + "---\nkind: [\n", 0},
	} {
		if got := r.Lacking([]byte(tt.manifest)); len(got) != tt.want {
			t.Errorf("%s: got %v, want %d", name, got, tt.want)
		}
	}
}
