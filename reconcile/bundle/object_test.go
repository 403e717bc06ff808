package bundle

import (
	"encoding/json"
	"testing"
)

// TestLoad_stringData: Secrets are applied with data alone, so that a key which a
// later bundle drops is removed.
func TestLoad_stringData(t *testing.T) {
	const head = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: n}\n"
	for _, tt := range []struct{ name, body, want string }{
		{"text", "stringData: {a: x}", `{"data":{"a":"eA=="}}`},
		{"text wins over data", "data: {a: b2xk, b: b2xk}\nstringData: {a: x}", `{"data":{"a":"eA==","b":"b2xk"}}`},
		{"no text, which the server rejects", "stringData: {a: 5}", `{"stringData":{"a":5}}`},
		{"no data", "type: Opaque", `{"type":"Opaque"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			obj := mustLoad(t, map[string]string{"s.yaml": head + tt.body + "\n"}).Objects[0].DeepCopy().Object
			for _, common := range []string{"apiVersion", "kind", "metadata"} {
				delete(obj, common)
			}
			got, err := json.Marshal(obj)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}
