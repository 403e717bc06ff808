package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// TestLedger_allReasons: an entry that joins several outages has each of their messages once, the newest last, and stays bounded.
func TestLedger_allReasons(t *testing.T) {
	l, at := NewLedger("a", t0), t0
	closes := func(message string) {
		at = at.Add(time.Second)
		l.Verdict(at, protocol.Verdict{Ready: true, Reason: protocol.Ready}, protocol.Verdict{Reason: protocol.ServicesNotReady, Message: message})
		at = at.Add(time.Second)
		l.Verdict(at, protocol.Verdict{Reason: protocol.ServicesNotReady, Message: message}, protocol.Verdict{Ready: true, Reason: protocol.Ready})
	}
	message := func() string { return l.last(func(h *Held) bool { return h.Kind == Gate }).Message }
	for _, service := range []string{"api", "dns", "api", "dns", "dns"} {
		closes(service + " is not ready")
	}
	if want := "api is not ready; then dns is not ready"; message() != want {
		t.Errorf("got %q, want %q", message(), want)
	}
	for i := range 100 {
		closes(fmt.Sprintf("service %d is not ready", i))
	}
	if got := message(); len(got) > MaxMessage || !strings.HasPrefix(got, "…; then service 8") || !strings.HasSuffix(got, "98 is not ready; then service 99 is not ready") {
		t.Errorf("got %q", got)
	}
}

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
			facts.Warnings = []protocol.Warning{{Reason: protocol.Fight, Subject: fmt.Sprint(i % 2)}}
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
