package applyset

import (
	"strings"
	"testing"
)

func TestSetID(t *testing.T) {
	got := Set{Name: "lockstep", Namespace: "kube-system"}.ID()
	if len(got) > 63 || !strings.HasPrefix(got, "applyset-") || !strings.HasSuffix(got, "-v1") {
		t.Errorf("got %q", got)
	}
}
