package turns

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
)

// People uncordon the node in the drain of an agent: it serves, so the agent may not reboot, and its turn does not stay.
func TestNode_PreReboot_uncordoned(t *testing.T) {
	r := newRig(t)
	r.take("a", protocol.TurnOfAgent, "agent zincati", "now")
	r.present("a", false)
	r.node.cfg.Published = func() (bool, <-chan struct{}) { // it is asked in the drain
		if _, err := fleet.SetCordon(t.Context(), r.client, "a", fleet.CordonChange{}); err != nil {
			t.Error(err)
		}
		return true, nil
	}
	err := r.node.PreReboot(t.Context(), "zincati")
	if _, refused := errors.AsType[*Refused](err); !refused || !strings.Contains(err.Error(), "ended the cordon") {
		t.Errorf("got %v, want that it is refused", err)
	}
	if turn, found := r.observe(); found {
		t.Errorf("got %s, want no turn", turn)
	}
}

// Another node stops serving in the drain of an agent: the machine may not reboot, and its node returns to service.
func TestNode_PreReboot_othersOut(t *testing.T) {
	r := newRig(t)
	r.take("a", protocol.TurnOfAgent, "agent zincati", "now")
	r.present("a", false)
	r.node.cfg.Published = func() (bool, <-chan struct{}) { // it is asked in the drain
		r.present("b", false)
		return true, nil
	}
	err := r.node.PreReboot(t.Context(), "zincati")
	if _, refused := errors.AsType[*Refused](err); !refused || !strings.Contains(err.Error(), `node "b" is not ready`) {
		t.Errorf("got %v, want that it is refused", err)
	}
	turn, found := r.observe()
	if own, _ := r.fleet.Get().Record("a"); found || own.Node.Cordon.On() {
		t.Errorf("got %s, and the cordon %+v, want none", turn, own.Node.Cordon)
	}
}
