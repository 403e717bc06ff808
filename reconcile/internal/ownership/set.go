package ownership

import (
	"encoding/json"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// set is a set of fields in the form of managedFields: "f:name" for a field,
// "k:{...}" and "v:..." for items of lists, "." for the node itself.
type set map[string]any

// decode returns the fields of an entry; nil if there are none or they cannot be read.
func decode(entry metav1.ManagedFieldsEntry) (out set) {
	if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &out) != nil {
		return nil
	}
	return out
}

// child returns the set below a field; nil if the field is not in the set.
func (s set) child(name string) set {
	below, _ := s["f:"+name].(map[string]any)
	return below
}

// union merges two trees.
func union(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for k, v := range b {
		below, isMap := v.(map[string]any)
		have, both := out[k].(map[string]any)
		if isMap && both {
			out[k] = union(have, below)
		} else {
			out[k] = v
		}
	}
	return out
}

// leaves adds the paths of a tree to out, in a form for people: `.data.x`,
// `.spec.ports[{"port":80}].name`.
func leaves(tree map[string]any, path string, out map[string]bool) {
	if len(tree) == 0 {
		out[path] = true
		return
	}
	for name, sub := range tree {
		below, _ := sub.(map[string]any)
		kind, rest, _ := strings.Cut(name, ":")
		switch kind {
		case "f":
			leaves(below, path+"."+rest, out)
		case "k", "v", "i":
			leaves(below, path+"["+rest+"]", out)
		}
	}
}

// step follows one element of a path into value.
func step(element string, value any) (any, bool) {
	kind, rest, _ := strings.Cut(element, ":")
	switch kind {
	case "f":
		m, isMap := value.(map[string]any)
		if !isMap {
			return nil, false
		}
		next, exists := m[rest]
		return next, exists
	case "k", "v":
		return item(kind, rest, value)
	}
	return nil, false
}

// item finds the item of a list by its key fields, or by its value.
func item(kind, rest string, value any) (any, bool) {
	list, isList := value.([]any)
	if !isList {
		return nil, false
	}
	var want any
	if json.Unmarshal([]byte(rest), &want) != nil {
		return nil, false
	}
	for _, have := range list {
		keyed := kind == "k" && matches(want, have, nil)
		if keyed || kind == "v" && kube.EqualScalars(want, have) {
			return have, true
		}
	}
	return nil, false
}
