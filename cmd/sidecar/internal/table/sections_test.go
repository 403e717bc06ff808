package table

import (
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// A node that led may have failed to apply objects that another one has applied since.
func TestTable_failures(t *testing.T) {
	for leader, want := range map[string]bool{"cp-1": true, "": true, "cp-2": false} {
		state := protocol.Campaigning
		if leader == "cp-1" {
			state = protocol.Leading
		}
		r := report.Status{
			Election:  report.Election{State: string(state), Leader: leader},
			Reconcile: report.Reconcile{Failures: []report.Failure{{Object: "Namespace platform", Message: "session lost"}}},
		}
		if got := len((Status{}).failures(r)) > 0; got != want {
			t.Errorf("leader %q: got failures %t, want %t", leader, got, want)
		}
	}
}
