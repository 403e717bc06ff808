package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/test/e2e/upgrade"
)

func TestPrinter(t *testing.T) {
	view := upgrade.View{
		Leader: "a", Status: "DONE 1.1.0 min 1.0.0",
		Nodes: [upgrade.NodeCount]upgrade.NodeView{
			{ID: "a", Release: "1.2.0", Ready: true},
			{ID: "b", Blocks: true},
			{ID: "c", Release: "1.1.0", Ready: true, Blocks: true},
		},
	}
	var out strings.Builder
	p := newPrinter(&out)
	p.step(upgrade.Step{Name: "upgrade b", Why: "to see"})
	p.event(upgrade.Event{At: 1234 * time.Millisecond, Text: "stop b (1.1.0)", View: view})
	p.event(upgrade.Event{At: 12 * time.Second, View: view})
	p.event(upgrade.Event{At: 13 * time.Second})
	p.event(upgrade.Event{At: 14 * time.Second, View: upgrade.View{
		Nodes: [upgrade.NodeCount]upgrade.NodeView{{Reason: "another that is not shown"}},
	}})
	p.claimed([]upgrade.Claim{{Text: "a leads"}, {Text: "c is ready"}, {Text: "no node blocks"}}, []error{nil, errors.New("not ready\nin two lines"), nil})
	want := `
-- upgrade b -----------------------------------------------------------------------
   to see

     time   a               b               c               leads  status
     1.2s   stop b (1.1.0)
    12.0s   ● 1.2.0         -       blocks  ● 1.1.0 blocks  a      DONE 1.1.0 min 1.0.0
    13.0s   -               -               -               -      -

   ✓  1  a leads
   ✗  2  c is ready
         not ready
         in two lines
   ✓  3  no node blocks
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
