package reconcile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A key of a Secret's stringData that a later bundle drops goes.
func TestSecretKeysThatAreDroppedGo(t *testing.T) {
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: NS}\n"
	r := newRig(t)
	for _, step := range []struct {
		body string
		want map[string]any
	}{
		{"stringData: {a: x, b: y}", map[string]any{"a": "eA==", "b": "eQ=="}},
		{"stringData: {a: z}", map[string]any{"a": "eg=="}},
	} {
		r.use("1.0.0", secret+step.body+"\n")
		r.mustComplete()
		if diff := cmp.Diff(step.want, r.get(secrets, r.ns, "s").Object["data"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.body, diff)
		}
	}
}
