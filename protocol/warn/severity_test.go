package warn

import (
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

// TestSeverity: what is down now comes first, then what may go down, then the rest; and a cause before what follows from it. A warning without a reason may be about a
// certificate that ends.
func TestSeverity(t *testing.T) {
	var got []protocol.Reason
	warnings := []protocol.Warning{{Reason: Outage, Subject: "only"}}
	for _, r := range []protocol.Reason{NoLeader, BundlesDiffer, "", ClocksDiffer, NodeDead, Outage, protocol.RollingBack, MemberDown, EtcdNearlyFull, "of a newer program"} {
		warnings = append(warnings, protocol.Warning{Reason: r})
	}
	for _, w := range BySeverity(warnings) {
		got = append(got, w.Reason)
	}
	want := []protocol.Reason{NodeDead, MemberDown, NoLeader, Outage, "", ClocksDiffer, EtcdNearlyFull, "of a newer program", Outage, BundlesDiffer, protocol.RollingBack}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
