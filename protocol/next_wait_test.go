package protocol

import (
	"strings"
	"testing"
	"time"
)

func TestNext_waitsForNodes(t *testing.T) {
	runNext(t, []nextCase{
		{"waits for a node below A",
			given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0")),
			"Await (WaitForNodes) [n ReleaseTooOld]"},
		{"also for a dead one",
			given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0").dead()),
			"Await (WaitForNodes) [n ReleaseTooOld]"},
		{"not for one that the status shuts out already",
			given(presentStatus(doneStatus("0.9.0")), controller("n", "0.8.0")),
			"Write (WaitForNodes) WORKING version=1.0.0 min=1.0.0 content=1.0.0@4 digest=d1.0 epoch=7 drained=0 leader=me if epoch=7 status=50 fleet<=100"},
		{"not for one without the controller role",
			given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0").worker()),
			"Write (WaitForNodes) WORKING version=1.0.0 min=1.0.0 content=1.0.0@4 digest=d1.0 epoch=7 drained=0 leader=me if epoch=7 status=50 fleet<=100"},
		{"also for one whose role was just taken away: its gate may be open",
			given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0").roleTaken()),
			"Await (WaitForNodes) [n ReleaseTooOld]"},
		{"also if it is not alive any more",
			given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0").roleTaken().dead()),
			"Await (WaitForNodes) [n ReleaseTooOld]"},
		{"waits for a node that needs newer objects",
			given(presentStatus(Status{State: Done, Version: ver("1.2.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.2.0"), ContentEpoch: 9, Digest: "d1.2"}),
				controller("n", "1.1.0").needs("1.2.0")),
			"Await (WaitForNodes) [n ReconcilerTooOld]"},
		{"ignores an expired record, with the guard",
			given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0").gone(time.Minute, time.Minute)),
			"Write (WaitForNodes) WORKING version=1.0.0 min=1.0.0 content=1.0.0@4 digest=d1.0 epoch=7 drained=0 leader=me if epoch=7 status=50 fleet<=100"},
		{"does not ignore it before that",
			given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0").gone(time.Minute, time.Minute-1)),
			"Await (WaitForNodes) [n ReleaseTooOld]"},
		{"never ignores a record without --expire-dead-nodes",
			given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0").gone(0, 1000*time.Hour)),
			"Await (WaitForNodes) [n ReleaseTooOld]"},
		{"never ignores a live node",
			given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0").gone(time.Minute, time.Hour).alive()),
			"Await (WaitForNodes) [n ReleaseTooOld]"},
		{"an expired record does not help another one",
			given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0").gone(time.Minute, time.Minute), controller("o", "0.9.0").dead()),
			"Await (WaitForNodes) [o ReleaseTooOld]"},
		{"a corrupt record never expires",
			given(presentStatus(doneStatus("0.9.0")), controller("n", "1.1.0").gone(time.Minute, time.Hour).corrupt("garbage")),
			"Await (WaitForNodes) [n RecordCorrupt]"},
		{"a corrupt record blocks",
			given(presentStatus(doneStatus("0.9.0")), controller("n", "1.1.0").corrupt("garbage")),
			"Await (WaitForNodes) [n RecordCorrupt]"},
	})
}

// TestNext_explainsDeadNodes: a step says how long it waits for a dead node, and
// which nodes it ignores.
func TestNext_explainsDeadNodes(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   Input
		want string
	}{
		{"a node that will expire", given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0").gone(5*time.Minute, time.Minute)),
			"is ignored once it has been gone for 5m0s"},
		{"one of a newer release", given(presentStatus(Status{State: Done, Version: ver("1.2.0"), ContentRelease: rel("1.2.0")}),
			controller("n", "1.2.0").gone(5*time.Minute, time.Minute)), "is ignored once it has been gone for 5m0s"},
		{"one that has expired", given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0").gone(5*time.Minute, time.Hour)),
			"ignoring expired nodes (gone longer than their --expire-dead-nodes): n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step := Next(tc.in)
			text := step.Message
			for _, b := range step.Blockers {
				text += b.Message
			}
			if !strings.Contains(text, tc.want) {
				t.Errorf("got %q, want %q in it", text, tc.want)
			}
		})
	}
	if step := Next(given(presentStatus(doneStatus("0.9.0")), controller("n", "1.1.0").gone(time.Minute, time.Hour))); strings.Contains(step.Message, "ignoring") {
		t.Errorf("got %q of a node that fits", step.Message)
	}
}

// TestNext_cannotRoll: a release that raises both constraints deadlocks a rolling
// upgrade. The step has to say so, because nothing else does.
func TestNext_cannotRoll(t *testing.T) {
	in := given(presentStatus(doneStatus("0.9.0")), controller("n", "0.9.0"))
	if got := Next(in).Message; strings.Contains(got, "cannot be rolled") {
		t.Errorf("M is not above the objects: %s", got)
	}
	in.Local.Constraints = Constraints{MinReconciler: rel("1.1.0"), MinAPIServer: rel("1.1.0")}
	step := Next(in)
	if !strings.Contains(step.Message, "minReconcilerRelease 1.1.0 and minApiserverRelease 1.1.0 are both above 1.0.0") {
		t.Errorf("got %s", step.Message)
	}
	// Other nodes show the message, too.
	if !strings.Contains(step.Message, "me is not ready before the new objects") || !strings.Contains(step.Message, "roll me back to 1.0.0") {
		t.Errorf("got %s, want the node named", step.Message)
	}
	want := "runs release 0.9.0, but the new objects need 1.1.0 or newer; do not upgrade it now, which would be an outage: roll me back to 1.0.0"
	if got := step.Blockers[0].Message; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
