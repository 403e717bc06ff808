package election

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// People take the controller role from a node that serves and cannot know: its
// sidecar is cut off from etcd, so its gate stays open. The leader waits until the
// sidecar has registered without the role, not only while the node is alive.
func TestElection_roleTakenFromServingNode(t *testing.T) {
	w := newWorld(t)
	old := w.start("old", "0.9.0", options{ttl: 3 * time.Second})
	old.awaitStep(protocol.StepHold)
	n := w.start("a", "1.0.0", options{a: "1.0.0", drainTime: time.Nanosecond})
	n.awaitStep(protocol.StepAwait)

	old.proxy.Cut(etcdtest.BlackholeResponses)
	if err := fleet.SetRoles(t.Context(), n.election.cfg.Client, "old", fleet.RoleChange{}); err != nil {
		t.Fatal(err)
	}
	await(t, n.election.State(), "a blocker that is not alive", func(s State) bool {
		return len(s.Step.Blockers) == 1 && strings.Contains(s.Step.Blockers[0].Message, "controller role was taken away") &&
			strings.Contains(s.Step.Blockers[0].Message, "it is not alive")
	})
	if s := w.readStatus(); s.State != protocol.Done || s.Version.Release != rel(t, "0.9.0") {
		t.Errorf("the status was restricted while the gate of the old node may be open: %s", s)
	}

	old.proxy.Restore()
	n.awaitStatus(protocol.Done, "1.0.0")
	// The leader may see the record before its sidecar does.
	await(t, old.registrar.Registration(), "the old node registers without the role", func(r protocol.Registration) bool {
		return r.Matches && !r.Controller
	})
}
