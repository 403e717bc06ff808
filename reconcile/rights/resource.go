package rights

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// resources finds the resource of each kind.
type resources struct {
	defined map[schema.GroupKind]string // by CRDs of the bundle
	resolve Resolve                     // nil: there is no API server to ask
	guessed []Guess
}

// of returns the resource of a kind: as a CRD of the bundle names it; by rule if the kind
// is Kubernetes' own; as the API server serves it; by rule, which is then noted as a guess.
func (r *resources) of(gvk schema.GroupVersionKind) (string, error) {
	byRule := pluralOf(gvk.Kind)
	if defined, ok := r.defined[gvk.GroupKind()]; ok {
		return defined, nil
	}
	if kube.BuiltIn(gvk.Group) {
		return byRule, nil
	}
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	for _, known := range r.guessed {
		if known.APIVersion == apiVersion && known.Kind == kind {
			return known.Resource, nil
		}
	}
	if r.resolve != nil {
		served, found, err := r.resolve(apiVersion, kind)
		if err != nil {
			return "", fmt.Errorf("find the resource of %s: %w", kind, err)
		}
		if found {
			return served, nil
		}
	}
	r.guessed = append(r.guessed, Guess{APIVersion: apiVersion, Kind: kind, Resource: byRule})
	return byRule, nil
}

// pluralOf returns the plural of a kind in lower case. A test holds it to every built-in kind
// of a kube-apiserver.
func pluralOf(kind string) string {
	word := strings.ToLower(kind)
	switch last := word[max(0, len(word)-2):]; {
	case word == "endpoints":
		return word
	case strings.HasSuffix(word, "s"), strings.HasSuffix(word, "x"), last == "ch", last == "sh":
		return word + "es"
	case strings.HasSuffix(word, "y") && !strings.ContainsAny(last[:1], "aeiou"):
		return strings.TrimSuffix(word, "y") + "ies"
	}
	return word + "s"
}

// text returns a string in an object; empty: there is none.
func text(obj *kube.Object, path ...string) string {
	value, _, _ := unstructured.NestedString(obj.Object, path...)
	return value
}
