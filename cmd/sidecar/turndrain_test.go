package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// The machine has rebooted, and this node's sidecar ends the turn while the command that rebooted it is typed again.
func TestTurn_doneBefore(t *testing.T) {
	w := newTurnWorld(t, "cp-1", "cp-2")
	client := w.client()
	w.put("turns/held/cp-1", mustMarshal(t, &lockstepv1.Turn{Node: "cp-1", Kind: "reboot", Command: "/nowhere/reboot", BootId: "before"}))
	w.turnWhen(exitOK, "continues its turn", map[string]func(){"continues its turn": func() {
		f, err := fleet.ReadTurns(t.Context(), client)
		if err != nil {
			t.Error(err)
		}
		has, _ := f.Turns.Of("cp-1")
		if err := fleet.SetTurnWork(t.Context(), client, has, protocol.TurnWorkDone); err != nil {
			t.Error(err)
		}
		if action, err := fleet.AdvanceTurn(t.Context(), client, has, true); err != nil || action != nodeturns.End {
			t.Error(action, err)
		}
	}}, "--drain", "1h", "--", "/nowhere/reboot")
}

// People uncordon the node in the drain: it serves, so the command must not run.
func TestTurn_uncordonedInDrain(t *testing.T) {
	w := newTurnWorld(t, "cp-1", "cp-2")
	client := w.client()
	go func() {
		<-w.server.followed
		if _, err := fleet.SetCordon(t.Context(), client, "cp-1", fleet.CordonChange{}); err != nil {
			t.Error(err)
		}
	}()
	ran := filepath.Join(t.TempDir(), "ran")
	w.turnWhen(1, "", nil, "--drain", "3s", "--", "touch", ran)
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command ran while its node served")
	}
	f, err := fleet.ReadTurns(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if has, found := f.Turns.Of("cp-1"); found {
		t.Errorf("the node keeps %s", has)
	}
}
