package upgrade

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ref names an object for people and in maps: "ConfigMap platform/settings".
func ref(obj *unstructured.Unstructured) string {
	if ns := obj.GetNamespace(); ns != "" {
		return obj.GetKind() + " " + ns + "/" + obj.GetName()
	}
	return obj.GetKind() + " " + obj.GetName()
}

// covers returns nil where live contains every field of want, with its value. Fields
// that the API server or the sidecar adds do not count.
func covers(live, want any, at string) error {
	switch want := want.(type) {
	case map[string]any:
		fields, ok := live.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: got %v, want %v", at, live, want)
		}
		for name, value := range want {
			if err := covers(fields[name], value, strings.TrimPrefix(at+"."+name, ".")); err != nil {
				return err
			}
		}
		return nil
	case []any:
		items, ok := live.([]any)
		if !ok || len(items) != len(want) {
			return fmt.Errorf("%s: got %v, want %v", at, live, want)
		}
		for i := range want {
			if err := covers(items[i], want[i], fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		return nil
	}
	if !reflect.DeepEqual(live, want) {
		return fmt.Errorf("%s: got %v, want %v", at, live, want)
	}
	return nil
}
