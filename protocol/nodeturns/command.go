package nodeturns

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Silence is how long there is no sign of the command of a turn until it counts as ended: its
// work may restart the etcd that it uses. The end of the stream that it follows at its node's sidecar shows more.
const Silence = 30 * time.Second

// CommandFacts are the input of decisions about the command of a turn.
type CommandFacts struct {
	Turn   protocol.Turn
	Runs   bool          // its key is in the store
	Silent time.Duration // for how long its sidecar did not see that key
	Left   bool          // its stream of the sidecar's status ended
	BootID string        // of the machine now; empty: not known
}

// JudgeCommand decides the work of a turn whose command ended without a word. It returns the work
// of the turn unless that must change (docs/protocol-nodes.md#turns).
func JudgeCommand(f CommandFacts) protocol.TurnWork {
	t := f.Turn
	switch {
	case t.Work == protocol.TurnWorkInterrupted && f.Runs:
		return protocol.TurnWorkUnderWay // it did not reach etcd, or people typed it again
	case t.Work != protocol.TurnWorkUnderWay || !t.OfCommand() || f.Runs || Rebooted(t, f.BootID):
		return t.Work
	case f.Silent >= Silence || restarted(t, f.BootID):
		return protocol.TurnWorkInterrupted
	case f.Left && t.Kind != protocol.TurnOfReboot: // the machine ends that one when it stops
		return protocol.TurnWorkInterrupted
	default:
		return t.Work
	}
}

// Finishes reports whether a node's sidecar ends a turn by itself once the node serves: its work is done, and the program
// that wrote so may have been killed since. A turn of services has rules of its own (nodeservices.NextTurnAction).
func Finishes(t protocol.Turn, bootID string) bool {
	return t.Kind != protocol.TurnOfServices && (t.Work == protocol.TurnWorkDone || Rebooted(t, bootID))
}

// Rebooted reports whether a turn of a reboot did its work: the machine runs with another boot
// ID than when the turn was taken.
func Rebooted(t protocol.Turn, bootID string) bool {
	return t.Kind == protocol.TurnOfReboot && restarted(t, bootID)
}

// restarted reports whether the machine runs with another boot ID than when the turn was taken.
func restarted(t protocol.Turn, bootID string) bool {
	return t.BootID != "" && bootID != "" && t.BootID != bootID
}

// LastSign is what a sidecar knows of when a command ended without a word.
type LastSign struct {
	Seen bool      // its key was in the store before
	Left time.Time // since when it no longer follows the status: the kernel ends the connections of a program that is killed
}

// keyStays is the longest time from the end of a command that is killed to the end of its key: a lease, and the delay of etcd.
const keyStays = 6 * time.Second

// Interrupted says why the command of a turn ended without a word, and when, for people.
func Interrupted(f CommandFacts, last LastSign, now time.Time) string {
	const orAway = "sidecar turn, which ran it, was killed, or does not reach etcd"
	missing := now.Add(-f.Silent)
	text := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }
	switch {
	case restarted(f.Turn, f.BootID):
		return "the machine stopped in the middle of it, and runs again"
	case f.Left:
		return fmt.Sprintf("sidecar turn, which ran it, was killed at %s; what it had started may still run", text(last.Left))
	case last.Seen:
		return fmt.Sprintf("%s: it gave its last sign within %s after %s", orAway, keyStays, text(missing.Add(-keyStays)))
	default:
		return fmt.Sprintf("%s: there was no sign of it at %s, when this node's sidecar asked first", orAway, text(missing))
	}
}
