package protocol

import (
	"strings"
	"testing"
)

func TestBlockers_message(t *testing.T) {
	now, next := doneStatus("0.9.0"), doneStatus("1.0.0")
	got := Blockers(now, next, Fleet{Records: []*Record{controller("n", "0.9.0").dead()}}, upgradeIt)
	if len(got) != 1 || !strings.Contains(got[0].Message, "sidecar node remove n") {
		t.Errorf("a dead blocker's message does not say what to do: %+v", got)
	}
}

// A blocker that may be restarting is not to be removed.
func TestBlockers_restarts(t *testing.T) {
	in := given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0").dead())
	newer := given(presentStatus(doneStatus("1.0.0")), controller("n", "1.2.0").dead())
	newer.Status.Status.ContentRelease = rel("1.2.0")
	for rule, in := range map[Rule]Input{WaitForNodes: in, HoldForNewer: newer} {
		for _, restarts := range []bool{false, true} {
			in.Fleet = WithMayRestart(in.Fleet, func(NodeID) bool { return restarts })
			step := Next(in)
			if step.Rule != rule || len(step.Blockers) != 1 || strings.Contains(step.Blockers[0].Message, "sidecar node remove n") == restarts {
				t.Errorf("restarts %t: got %+v", restarts, step)
			}
		}
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
		got := Blockers(now, next, Fleet{Records: []*Record{r}}, upgradeIt)
		if len(got) != 1 || strings.Contains(got[0].Message, hint) != tt.want || !strings.Contains(got[0].Message, "runs release 0.9.0") {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
}
