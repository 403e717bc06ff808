package protocol

import (
	"fmt"
	"slices"
	"testing"
)

// Other nodes conclude from a presence whether an upgrade may start, so what holds it is there,
// however much else is wrong.
func TestReportedWarnings(t *testing.T) {
	var all []Warning
	for i := range MaxWarnings {
		all = append(all, Warning{Reason: OptionalServiceFailing, Message: fmt.Sprint(i)})
	}
	if got := ReportedWarnings(all); !slices.Equal(got, all) {
		t.Errorf("there is room for all: got %v", got)
	}
	held, down := Warning{Reason: RemovalsHeld}, Warning{Reason: MemberDown}
	got := ReportedWarnings(append(all, held, down))
	if want := append([]Warning{held, down}, all[:MaxWarnings-2]...); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	f := Fleet{Records: []*Record{{ID: "cp-1", Alive: true, Node: Node{Roles: Roles{Controller: true}}, Presence: Presence{Election: Leading, Warnings: got}}}}
	if got := reported(f); len(got) != 1 || got[0].Reason != RemovalsHeld {
		t.Errorf("obstacles: got %v", got)
	}
}
