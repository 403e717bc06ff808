package bundle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBuiltin: the built-in bundle is also the example, so it has to be a good one.
func TestBuiltin(t *testing.T) {
	b, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("its constraints are not above its release", func(t *testing.T) {
		if err := b.Constraints.Validate(b.Version.Release); err != nil {
			t.Error(err)
		}
	})
	t.Run("it has an example of each common kind", func(t *testing.T) {
		kinds := map[string]int{}
		for _, o := range b.Objects {
			kinds[o.GetKind()]++
		}
		want := map[string]int{
			"ClusterRole": 2, "ClusterRoleBinding": 2, "CSIDriver": 1, "PriorityClass": 2,
			"RuntimeClass": 1, "ServiceAccount": 1, "StorageClass": 2,
		}
		if diff := cmp.Diff(want, kinds); diff != "" {
			t.Errorf("kinds (-want +got):\n%s", diff)
		}
	})
	t.Run("its directory loads as the same bundle", func(t *testing.T) {
		dir, err := Load("builtin")
		if err != nil || dir.Digest != b.Digest {
			t.Errorf("got %v, %v, want the digest of the embedded one", dir, err)
		}
	})
}
