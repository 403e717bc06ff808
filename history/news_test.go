package history

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// TestLedger_news: each happening is counted once, by the sidecar that writes it.
func TestLedger_news(t *testing.T) {
	for _, leading := range []bool{false, true} {
		l := NewLedger("a", t0)
		facts := Facts{Node: "a", Leading: leading, Reached: true, Fleet: protocol.Fleet{Revision: 1}}
		r := &protocol.Record{ID: "b", Revision: 7, Node: protocol.Node{Roles: protocol.Roles{Controller: true}}}
		r.Alive = true
		facts.Fleet.Records = []*protocol.Record{r}
		l.Observe(t0, facts)
		off := *r
		off.Alive = false
		for i := range 4 {
			facts.Fleet.Records = []*protocol.Record{r}
			if i%2 == 0 {
				facts.Fleet.Records = []*protocol.Record{&off}
			}
			facts.Warnings = []protocol.Warning{{Reason: warn.Fight, Subject: fmt.Sprint(i % 2)}}
			l.Observe(t0.Add(time.Duration(i)*time.Second), facts)
		}
		var got []string
		for _, n := range l.TakeNews() {
			got = append(got, fmt.Sprintf("%s %s %d %t", n.Kind, n.Node, n.Count, n.Again))
		}
		want := []string{"sidecar a 1 false", "object a 1 false", "object a 1 false", "object a 1 true", "object a 1 true"}
		if leading {
			want = append(want, "node b 1 false", "node b 1 true")
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("leading %t: got %q, want %q", leading, got, want)
		}
		if len(l.TakeNews()) > 0 {
			t.Error("the news are not new")
		}
	}
}
