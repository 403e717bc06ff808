package rollout

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestDeadlock(t *testing.T) {
	for _, tt := range []struct {
		from, to, m, a string
		deadlock       bool
		risky          bool
	}{
		{"1.0.0", "1.1.0", "0.0.0", "0.0.0", false, false},
		{"1.0.0", "1.1.0", "1.0.0", "1.0.0", false, false},
		{"1.0.0", "1.1.0", "1.1.0", "1.0.0", false, false},
		{"1.0.0", "1.1.0", "1.0.0", "1.1.0", false, true},
		{"1.0.0", "1.1.0", "1.1.0", "1.1.0", true, true},
		{"1.0.0", "1.1.0", "1.0.1", "1.0.1", true, true},
		{"1.1.0", "1.1.0", "1.1.0", "1.1.0", false, false}, // nothing rolls
		{"1.2.0", "1.1.0", "1.1.0", "1.1.0", false, false}, // a way back
	} {
		c := protocol.Constraints{MinReconciler: rel(tt.m), MinApiserver: rel(tt.a)}
		got := Deadlock(rel(tt.from), rel(tt.to), c)
		if (got != "") != tt.deadlock || tt.deadlock && !strings.Contains(got, tt.m+" and minApiserverRelease "+tt.a) {
			t.Errorf("Deadlock(%s, %s, M %s A %s): got %q, want one: %t", tt.from, tt.to, tt.m, tt.a, got, tt.deadlock)
		}
		if got := RollbackRisk(rel(tt.from), rel(tt.to), c); (got != "") != tt.risky {
			t.Errorf("RollbackRisk(%s, %s, M %s A %s): got %q, want one: %t", tt.from, tt.to, tt.m, tt.a, got, tt.risky)
		}
	}
}
