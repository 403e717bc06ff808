package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
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
	w.turnWhen(console.ExitOK, "continues its turn", map[string]func(){"continues its turn": func() {
		f, err := fleet.List(t.Context(), client)
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

// People end a turn while its command runs: that is refused, and says what runs where since when, and what ends it all the same.
func TestTurnEnd_works(t *testing.T) {
	w := newTurnWorld(t, "cp-1", "cp-2")
	typed, goOn := halfway(t, "0")
	w.turnWhen(console.ExitOK, "", map[string]func(){"half": func() {
		defer goOn()
		w.want(console.ExitFailed, `node "cp-1" has the turn since 2`, "turn", "end", "--server", w.server.URL)
		w.want(console.ExitFailed, "; the command runs there, or is about to; when it has ended, so has the turn; "+
			"to return the node to service all the same: sidecar turn end cp-1 --force --etcd-servers=", "turn", "end", "cp-1")
	}}, append([]string{"--drain", "1ms"}, typed...)...)
	w.put("turns/held/cp-1", mustMarshal(t, &lockstepv1.Turn{Node: "cp-1", Kind: "services", Message: "api"}))
	w.want(console.ExitFailed, "its sidecar ends it when they are ready; to give it up all the same: sidecar turn end cp-1 --force", "turn", "end", "cp-1")
}

// A command that continues its turn does not get another cordon: people end the turn first.
func TestTurn_uncordonedResumed(t *testing.T) {
	w := newTurnWorld(t, "cp-1", "cp-2")
	w.put("turns/held/cp-1", mustMarshal(t, &lockstepv1.Turn{Node: "cp-1", Kind: "command", Command: "true", Work: "interrupted"}))
	w.turn(console.ExitFailed, "give the turn up: sidecar turn end cp-1", "--", "true")
	w.want(console.ExitOK, "its turn has ended", "turn", "end", "cp-1")
	w.turn(console.ExitOK, "", "--", "true")
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
	f, err := fleet.List(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if has, found := f.Turns.Of("cp-1"); found {
		t.Errorf("the node keeps %s", has)
	}
}
