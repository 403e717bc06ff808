package reconcile_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What a newer program added to the mark survives the passes of a leader that does not know it.
func TestMark_keepsUnknownFields(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	r.mustComplete()
	const ofMark, ofEntry = `"added":{"n":1}`, `"addedToEntry":[1]`
	newer := strings.NewReplacer(`{"firstDone"`, `{`+ofMark+`,"firstDone"`, `{"release"`, `{`+ofEntry+`,"release"`).Replace(r.markText())
	r.patch(configMaps, r.ns, "set", fmt.Sprintf(`{"data":{"mark.json":%q}}`, newer))

	r.use("1.0.1", configMap("a", "x: two"), "apiVersion: unknown.test/v1\nkind: Nothing\nmetadata: {name: x}\n")
	if out, err := r.pass(); err != nil || out.Complete {
		t.Fatalf("got %+v, %v, want an incomplete pass", out, err)
	}
	if text := r.markText(); !strings.Contains(text, ofMark) || !strings.Contains(text, ofEntry) || len(r.survey().Entries) != 2 {
		t.Errorf("a pass began: got %s", text)
	}
	r.use("1.0.2", configMap("a", "x: two"))
	r.mustComplete()
	if text := r.markText(); !strings.Contains(text, ofMark) || strings.Contains(text, ofEntry) || len(r.survey().Entries) != 1 {
		t.Errorf("a pass is finished: got %s", text)
	}
}

func (r *rig) markText() string {
	r.t.Helper()
	text, _, _ := unstructured.NestedString(r.get(configMaps, r.ns, "set").Object, "data", "mark.json")
	return text
}
