package protocol

import (
	"strings"
	"testing"
)

func TestBlockers_message(t *testing.T) {
	now, next := doneStatus("0.9.0"), doneStatus("1.0.0")
	got := Blockers(now, next, Fleet{Records: []*Record{controller("n", "0.9.0").dead()}})
	if len(got) != 1 || !strings.Contains(got[0].Message, "sidecar node remove n") {
		t.Errorf("a dead blocker's message does not say what to do: %+v", got)
	}
}

// A node that was upgraded, and whose services do not become ready, is registered with its old
// release: the message says so.
func TestBlockers_servicesNotReady(t *testing.T) {
	now, next := doneStatus("0.9.0"), doneStatus("1.0.0")
	const hint = "its services are not ready: if it was upgraded"
	for _, tt := range []struct {
		name   string
		reason Reason
		dead   bool
		want   bool
	}{
		{"services that are not ready", ServicesNotReady, false, true},
		{"a node that serves", Ready, false, false},
		{"a dead node", ServicesNotReady, true, false},
	} {
		r := controller("n", "0.9.0")
		if r.Presence.Reason = tt.reason; tt.dead {
			r = r.dead()
		}
		got := Blockers(now, next, Fleet{Records: []*Record{r}})
		if len(got) != 1 || strings.Contains(got[0].Message, hint) != tt.want || !strings.Contains(got[0].Message, "runs release 0.9.0") {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
}
