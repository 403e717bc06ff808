package ownership

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// noVersion begins the answer of an API server that must convert an object to a version that is
// missing in its CRD.
const noVersion = "invalid group/version: "

// Carry returns the managedFields of live with the entries of a version that the CRD lost
// carried over to another version; nil: an apply did not fail because of that.
//
// To apply, the API server converts the object to the version of each entry. It forgets an
// entry whose version is unknown to a built-in API, but fails if it is unknown to a CRD
// (docs/upstream.md#lost-versions). So an object that was applied in a version could never be
// changed again after a rollback to a CRD without that version.
func Carry(live *kube.Object, to string, refusal error) []metav1.ManagedFieldsEntry {
	if refusal == nil {
		return nil
	}
	_, lost, found := strings.Cut(refusal.Error(), noVersion)
	if !found || lost == to {
		return nil
	}
	entries := slices.Clone(live.GetManagedFields())
	carried := false
	for i := range entries {
		if entries[i].APIVersion == lost {
			entries[i].APIVersion, carried = to, true
		}
	}
	if !carried {
		return nil
	}
	return entries
}
