package kube

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// FuzzDecoder compares decoded objects with what the JSON package of Kubernetes decodes.
func FuzzDecoder(f *testing.F) {
	for _, v := range append(values, `"a\u00e9"`, `"é"`, "\"\x01\"", "\"\xff\"", `12345678901234567890`, `1.0`, ` [ 1 , 2 ] `) {
		f.Add([]byte(`{"a":` + v + `,"b":{"fieldsV1":` + v + `},"metadata":{"managedFields":[{"fieldsV1":` + v + `},{"fieldsV1":` + v + `}]}}`))
	}
	f.Add([]byte(`{"a":1}x`))
	f.Add([]byte(`{"a":1,}`))
	f.Add([]byte(`{"a":tru}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var want map[string]any
		wanted := utiljson.Unmarshal(text, &want)
		if wanted == nil && want == nil {
			return // null
		}
		got, err := new(decoder).kept(text, nil)
		if (err == nil) != (wanted == nil) {
			t.Fatalf("%q: got error %v, want %v", text, err, wanted)
		}
		if err == nil && !reflect.DeepEqual(got.Object, want) {
			t.Errorf("%q: got %v, want %v", text, got.Object, want)
		}
	})
}

func TestDecoder(t *testing.T) {
	t.Run("objects share equal fields", func(t *testing.T) {
		d := new(decoder)
		fields := func(text string) any {
			obj, err := d.kept([]byte(`{"metadata":{"managedFields":[{"fieldsV1":`+text+`}]}}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			all, _ := obj.Object["metadata"].(map[string]any)["managedFields"].([]any)
			return all[0].(map[string]any)["fieldsV1"]
		}
		same := func(a, b any) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
		if a, b := fields(`{"f:a":{}}`), fields(`{"f:a":{}}`); !same(a, b) {
			t.Error("two objects have two copies")
		}
		if got, want := fields(`{"f:b":{}}`), map[string]any{"f:b": map[string]any{}}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		for i := range 2 * maxShared {
			fields(`{"f:` + strings.Repeat("x", i) + `":{}}`)
		}
		if len(d.shared) > maxShared {
			t.Errorf("%d fields are remembered, want %d at most", len(d.shared), maxShared)
		}
		d = new(decoder)
		if fields(`{"f:` + strings.Repeat("x", maxSharedText) + `":{}}`); len(d.shared) != 0 {
			t.Error("long fields are remembered")
		}
		if _, err := d.kept([]byte(`{"spec":{"fieldsV1":{"fieldsV1":{}}}}`), nil); err != nil || len(d.shared) != 0 {
			t.Errorf("got %v, and %v is remembered, which is not in managedFields", err, d.shared)
		}
	})
	t.Run("values that are nested too deeply are refused", func(t *testing.T) {
		text := `{"a":` + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + `}`
		if _, err := new(decoder).kept([]byte(text), nil); !errors.Is(err, errSyntax) {
			t.Errorf("got %v, want %v", err, errSyntax)
		}
	})
}
