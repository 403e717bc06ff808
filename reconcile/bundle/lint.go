package bundle

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/strict"
)

// Validate opens a bundle as Open does, and finds all faults in one go: its error also contains what an API
// server would reject in the objects that could be read.
func Validate(dir string) (*Bundle, error) {
	if dir == "" || dir == BuiltinName {
		return Open(dir)
	}
	l, err := newLoader(dir)
	if err != nil {
		return nil, err
	}
	b, _ := l.load() // its error is among the problems
	return b, l.lint()
}

// lint returns the problems so far, and those that an API server would find in the objects that could be read.
func (l *loader) lint() error {
	read := Bundle{}
	read.Objects, read.sources = canonical(l.objects)
	read.lint(l.problems)
	return l.problems.Err()
}

// lint finds the faults that an API server would reject, as far as it can without one. They alone are no error of Load:
// which kinds are in a namespace is up to the API server, and a sidecar starts with such a bundle and reports the
// objects that fail.
func (b *Bundle) lint(problems *strict.Problems) {
	scopes, forms := b.scopes(), b.schemas()
	for i, obj := range b.Objects {
		at, id := b.sources[i], fmt.Sprintf("%s %q", obj.GetKind(), obj.GetName())
		switch namespaced, known := scopes[obj.GroupVersionKind().GroupKind()]; {
		case known && namespaced && obj.GetNamespace() == "":
			problems.Add(at, "%s has no metadata.namespace: there is no default", id)
		case known && !namespaced && obj.GetNamespace() != "":
			problems.Add(at, "%s has a metadata.namespace, but the CRD in this bundle has the scope Cluster", id)
		}
		for _, field := range textsOf(obj) {
			problems.Add(at, "%s: %s must be a text: write it in quotes", id, field)
		}
		for _, problem := range forms.problems(obj) {
			problems.Add(at, "%s: %s (the schema of the CRD in this bundle)", id, problem)
		}
	}
}

// scopes says which kinds are in a namespace: some of Kubernetes itself, and all whose CRD
// is in the bundle.
func (b *Bundle) scopes() map[schema.GroupKind]bool {
	out := map[schema.GroupKind]bool{}
	for group, kinds := range namespacedKinds() {
		for kind := range strings.FieldsSeq(kinds) {
			out[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	for _, obj := range b.Objects {
		scope, _, _ := unstructured.NestedString(obj.Object, "spec", "scope")
		if kind := Defines(obj); kind.Kind != "" && (scope == "Namespaced" || scope == "Cluster") {
			out[kind] = scope == "Namespaced"
		}
	}
	return out
}

// namespacedKinds are kinds of Kubernetes itself that a bundle may well contain.
func namespacedKinds() map[string]string {
	return map[string]string{
		"":                          "ConfigMap Endpoints LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
		"apps":                      "DaemonSet Deployment ReplicaSet StatefulSet",
		"autoscaling":               "HorizontalPodAutoscaler",
		"batch":                     "CronJob Job",
		"coordination.k8s.io":       "Lease",
		"discovery.k8s.io":          "EndpointSlice",
		"networking.k8s.io":         "Ingress NetworkPolicy",
		"policy":                    "PodDisruptionBudget",
		"rbac.authorization.k8s.io": "Role RoleBinding",
		"resource.k8s.io":           "ResourceClaim ResourceClaimTemplate",
	}
}

// textsOf returns the fields of a ConfigMap or a Secret that must be texts, and are not: YAML
// reads them as numbers or booleans. Values are not shown.
func textsOf(obj *unstructured.Unstructured) []string {
	if kind := obj.GroupVersionKind(); kind.Group != "" || kind.Kind != "ConfigMap" && kind.Kind != "Secret" {
		return nil
	}
	var out []string
	for _, field := range []string{"data", "stringData", "binaryData"} {
		values, _ := obj.Object[field].(map[string]any)
		for key, value := range values {
			if _, text := value.(string); !text && value != nil {
				out = append(out, fmt.Sprintf("%s[%q]", field, key))
			}
		}
	}
	slices.Sort(out)
	return out
}
