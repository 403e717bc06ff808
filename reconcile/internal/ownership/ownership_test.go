package ownership

import (
	"encoding/json"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// mustObject reads an object as it comes from the API.
func mustObject(t testing.TB, text string) *kube.Object {
	t.Helper()
	var content map[string]any
	obj := &kube.Object{}
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	for field, value := range map[string]any{"apiVersion": "v1", "kind": "Thing"} {
		if _, has := content[field]; !has {
			content[field] = value
		}
	}
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := obj.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return obj
}
