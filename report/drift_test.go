package report

import (
	"fmt"
	"testing"
)

// TestDrift_CountRepair: the names are bounded, the newest last, and a report before it keeps its own.
func TestDrift_CountRepair(t *testing.T) {
	var d, before Drift
	for i := range MaxNamed + 5 {
		before = d
		d.CountRepair(fmt.Sprint(i), Timestamp{})
	}
	if d.Repairs != MaxNamed+5 || len(d.Repaired) != MaxNamed || d.Repaired[0] != "5" || d.Repaired[MaxNamed-1] != fmt.Sprint(MaxNamed+4) {
		t.Errorf("got %+v", d)
	}
	if before.Repaired[0] != "4" || before.Repaired[MaxNamed-1] != fmt.Sprint(MaxNamed+3) {
		t.Errorf("the report before has changed: %v", before.Repaired)
	}
}
