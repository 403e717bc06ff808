package applyset

import "testing"

func TestKinds(t *testing.T) {
	kinds := parseKinds("ConfigMap, Deployment.apps,,Role.rbac.authorization.k8s.io")
	if got := formatKinds(append(kinds, kinds...)); got != "ConfigMap,Deployment.apps,Role.rbac.authorization.k8s.io" {
		t.Errorf("got %q", got)
	}
	if got := parseKinds(""); len(got) != 0 {
		t.Errorf("got %v from nothing", got)
	}
}

// The ID that kubectl computes for the parent (KEP-3659).
