package table

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/report"
)

// The lines say whether a node that does not serve is in the Service all the same.
func TestTable_kubernetesService(t *testing.T) {
	if got := (Status{}).endpoints(report.Endpoints{}); got != nil {
		t.Errorf("without the flag: got %q", got)
	}
	node := func(id, address, reason string) report.EndpointsNode {
		return report.EndpointsNode{ID: id, Addresses: []string{address}, Serves: reason == "Ready", Reason: reason, Message: "message"}
	}
	got := Status{}.endpoints(report.Endpoints{
		Enabled: true, Reason: "Published", Addresses: []string{"10.0.0.1", "10.0.0.3"},
		Nodes: []report.EndpointsNode{node("a", "10.0.0.1", "Ready"), node("b", "10.0.0.2", "Cordoned"), node("c", "10.0.0.3", "NoPresence")},
	})
	want := []string{
		"the Service kubernetes has 10.0.0.1, 10.0.0.3", "b is not in it (Cordoned): message", "c is in it, and should not be (NoPresence): message",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	got = Status{}.endpoints(report.Endpoints{Enabled: true, Reason: "NoneReady", Message: "why", Problem: "denied"})
	if len(got) != 1 || !strings.HasPrefix(got[0], "the Service kubernetes has no address; NoneReady") || !strings.HasSuffix(got[0], "this node cannot write it: denied") {
		t.Errorf("got %q", got)
	}
}
