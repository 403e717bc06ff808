package plan

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWaveOf(t *testing.T) {
	for gk, want := range map[string]Wave{
		"Namespace": WaveDefinitions, "CustomResourceDefinition.apiextensions.k8s.io": WaveDefinitions,
		"ConfigMap": WaveObjects, "ClusterRole.rbac.authorization.k8s.io": WaveObjects, "Namespace.other.test": WaveObjects,
		"ValidatingAdmissionPolicy.admissionregistration.k8s.io":        WaveAdmission,
		"ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io": WaveAdmission,
		"MutatingAdmissionPolicy.admissionregistration.k8s.io":          WaveAdmission,
		"MutatingWebhookConfiguration.admissionregistration.k8s.io":     WaveAdmission,
	} {
		if got := waveOf(schema.ParseGroupKind(gk)); got != want {
			t.Errorf("%s: got wave %d, want %d", gk, got, want)
		}
	}
}
