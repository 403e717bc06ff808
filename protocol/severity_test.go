package protocol

import (
	"slices"
	"testing"
)

// TestSeverity: what is down now comes first, then what may go down, then the rest. A warning without a reason may be about a
// certificate that ends.
func TestSeverity(t *testing.T) {
	var got []Reason
	warnings := []Warning{{Reason: Outage, Subject: "only"}}
	for _, r := range []Reason{BundlesDiffer, "", ClocksDiffer, NodeDead, Outage, RollingBack, MemberDown, EtcdNearlyFull, "of a newer program"} {
		warnings = append(warnings, Warning{Reason: r})
	}
	for _, w := range BySeverity(warnings) {
		got = append(got, w.Reason)
	}
	want := []Reason{NodeDead, Outage, MemberDown, Outage, "", ClocksDiffer, EtcdNearlyFull, "of a newer program", BundlesDiffer, RollingBack}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
