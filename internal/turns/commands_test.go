package turns

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
)

// The turn of a reboot ends once the machine has another boot, and not before.
func TestNode_KeepCommands(t *testing.T) {
	for boot, ends := range map[string]bool{"before": true, "now": false, "": false} {
		t.Run("taken in the boot "+boot, func(t *testing.T) {
			r := newRig(t)
			r.take("a", protocol.TurnOfReboot, "root@a", boot)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- r.node.KeepCommands(ctx) }()
			found := true
			// Each observation wakes it. A turn that stays is observed often enough for one that ends.
			for i := 0; found && (ends && i < 10_000 || i < 100); i++ {
				_, found = r.observe()
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if found == ends {
				t.Errorf("the turn is there: %v", found)
			}
		})
	}
}

// The program that took the turn was killed after it wrote that the work is done: the node's sidecar ends the turn.
func TestNode_KeepCommands_done(t *testing.T) {
	for _, kind := range []protocol.TurnKind{protocol.TurnOfCommand, protocol.TurnOfReboot, protocol.TurnOfPeople, protocol.TurnOfAgent} {
		t.Run(string(kind), func(t *testing.T) {
			r := newRig(t)
			turn := r.take("a", kind, "root@a", "now")
			if err := fleet.SetTurnWork(t.Context(), r.client, turn, protocol.TurnWorkDone); err != nil {
				t.Fatal(err)
			}
			r.present("a", false)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- r.node.KeepCommands(ctx) }()
			r.await("its cordon has ended", func() bool {
				own, _ := r.fleet.Get().Record("a")
				_, found := r.observe()
				return found && !own.Node.Cordon.On()
			})
			r.present("a", true)
			r.await("its turn has ended", func() bool { _, found := r.observe(); return !found })
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The program that runs the command of a turn is killed: the stream that it followed ends, and its key ends with its
// lease. The sidecar says so at once, but not of a command whose stream goes on: its work may have stopped the etcd that it uses.
func TestNode_KeepCommands_killed(t *testing.T) {
	r := newRig(t)
	r.take("a", protocol.TurnOfCommand, "root@a", "now")
	ended := r.node.CommandFollows()
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan error, 1)
	go func() { kept <- r.node.KeepCommands(ctx) }()
	for range 100 {
		r.wantWork(protocol.TurnWorkUnderWay)
	}
	other := r.node.CommandFollows() // its next attempt, before the first one is known to have ended
	ended()
	for range 100 {
		r.wantWork(protocol.TurnWorkUnderWay)
	}
	other()
	r.await("it is interrupted", func() bool {
		turn, _ := r.observe()
		return turn.Work == protocol.TurnWorkInterrupted && strings.Contains(turn.Problem, "was killed at ")
	})
	cancel()
	if err := <-kept; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// await observes until done. Each observation wakes the node.
func (r *rig) await(what string, done func() bool) {
	r.Helper()
	for range 10_000 {
		if done() {
			return
		}
	}
	r.Errorf("not yet: %s", what)
}
