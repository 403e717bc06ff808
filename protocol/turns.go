package protocol

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file describes the turns that the store contains (docs/protocol-nodes.md#turns).

// Turn is planned work on one node while the others serve (docs/protocol-nodes.md#turns).
type Turn struct {
	Node    NodeID
	Since   time.Time // when it was taken, by the clock of who took it
	Until   time.Time // its limit, by the same clock; zero: no limit
	Message string    // why, in people's words; may be empty
	By      string    // the user and the machine, like root@cp-1; empty: not known

	Kind     TurnKind
	Command  string   // of a TurnOfCommand and a TurnOfReboot, as a shell reads it
	Work     TurnWork // how far it is
	Problem  string   // why the work failed, as its command or its sidecar saw it; empty: not known
	BootID   string   // of the machine when it was taken; empty: not known
	Revision int64    // of its key
}

// TurnKind is the kind of work that holds a turn, which decides who ends it.
type TurnKind string

// The kinds of turns.
const (
	// TurnOfCommand: sidecar turn -- COMMAND.
	TurnOfCommand TurnKind = "command"
	// TurnOfReboot: the same, of a command that reboots the machine. The sidecar ends the turn
	// when the machine started again.
	TurnOfReboot TurnKind = "reboot"
	// TurnOfPeople: sidecar turn begin.
	TurnOfPeople TurnKind = "people"
	// TurnOfServices: the sidecar starts services again that changed.
	TurnOfServices TurnKind = "services"
	// TurnOfAgent: an agent that reboots the machine asked for it (FleetLock).
	TurnOfAgent TurnKind = "fleetlock"
)

// MaxTurns bounds how many nodes may hold a turn at the same time.
const MaxTurns = 100

// TurnTime is the limit of a turn if people do not say it.
const TurnTime = time.Hour

// What returns the purpose of the turn, for people.
func (t Turn) What() string {
	text := t.Message
	switch {
	case t.Command != "" && text != "":
		text = t.Command + " (" + text + ")"
	case t.Command != "":
		text = t.Command
	}
	return text
}

// Cordon is the cordon of the turn.
func (t Turn) Cordon() Cordon {
	return Cordon{Since: t.Since, Message: Cut(t.What(), MaxCordonMessage), By: t.By, Turn: true}
}

// Cut shortens a text without cutting a character in two.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const dots = "…"
	return strings.ToValidUTF8(text[:limit-len(dots)], "") + dots
}

// Same reports whether o is this turn, also if its work has changed since. A node whose turn ended may
// have another one at once.
func (t Turn) Same(o Turn) bool {
	return t.Node == o.Node && t.Kind == o.Kind && t.Since.Equal(o.Since)
}

// SameOwner reports whether o is a turn of the same agent on that node: an agent that asks again means whichever it has.
func (t Turn) SameOwner(o Turn) bool { return t.Node == o.Node && t.Kind == o.Kind && t.By == o.By }

// Remedy says how to end a turn.
func (t Turn) Remedy() string {
	if t.Work == TurnWorkDone {
		return fmt.Sprintf("it ends when its node serves; if that never happens: sidecar turn end %s --force", t.Node)
	}
	switch t.Kind {
	case TurnOfCommand, TurnOfReboot:
		return fmt.Sprintf("start the same command again on that node, or give the turn up: sidecar turn end %s", t.Node)
	case TurnOfServices:
		return fmt.Sprintf("repair the file of the service on that node, and its turn goes on; to give the turn up: sidecar turn end %s --force", t.Node)
	default:
		return fmt.Sprintf("when its work is done: sidecar turn end %s", t.Node)
	}
}

// WorksRemedy says what people do about a turn that they may not end because its work is under way.
func (t Turn) WorksRemedy() string {
	switch {
	case t.Kind == TurnOfServices && t.Work.HasFailed():
		return t.Remedy()
	case t.Kind == TurnOfServices:
		return fmt.Sprintf("to give it up all the same: sidecar turn end %s --force", t.Node)
	default:
		return fmt.Sprintf("when it has ended, so has the turn; to return the node to service all the same: sidecar turn end %s --force", t.Node)
	}
}

// TurnRemedy says how to end a turn of this fleet. A node without a record never serves again as it is, and an ephemeral
// one that is not alive may never return: its record stays with the turn.
func (f Fleet) TurnRemedy(t Turn) string {
	r, found := f.Record(t.Node)
	switch {
	case found && r.Node.Ephemeral && !r.Alive:
		return r.MissingRemedy()
	case !found:
		return fmt.Sprintf("its node has no record, so it does not serve; if its work is over: sidecar turn end %s --force", t.Node)
	}
	return t.Remedy()
}

// String says who holds the turn, since when, and for what, for people.
func (t Turn) String() string {
	text := fmt.Sprintf("node %q has the turn since %s", t.Node, t.Since.UTC().Format(time.RFC3339))
	if what := t.What(); what != "" {
		text += ": " + what
	}
	switch {
	case t.Work.HasFailed():
		text += "; its work has failed"
	case t.Work == TurnWorkDone:
		text += "; its work is done"
	}
	return text
}

// TurnProblem says why the work of a turn failed, as far as its node or its command reports that;
// empty: it is not known, or the work did not fail.
func (f Fleet) TurnProblem(t Turn) string {
	own, found := f.Record(t.Node)
	switch {
	case !t.Work.HasFailed():
		return ""
	case t.Kind != TurnOfServices || !found:
		return t.Problem
	}
	for _, w := range own.Presence.Warnings {
		if w.Reason == ServiceFailing || w.Reason == ServiceNotReady {
			return w.Message
		}
	}
	return ""
}

// TurnWait says why a turn whose work is done has not ended: the reason for which its node does not serve, according to
// the store. Empty: its work is not done, or the node serves.
func (f Fleet) TurnWait(t Turn) string {
	own, found := f.Record(t.Node)
	reason, _ := own.WhyServes()
	switch {
	case t.Work != TurnWorkDone: // until then the node need not serve
		return ""
	case !found:
		return "it has no record"
	case own.Problem != "":
		return "its record is corrupt"
	case !own.Alive: // what it reported last says nothing any more
		return "it is dead"
	case reason == Overridden: // before Serves, which an override satisfies, too: the gate closes when it ends
		return "it serves by an override alone, which ends; repair its gate, and " + EndsOverride(own.Presence.Warnings)
	case own.Serves():
		return ""
	case reason == "":
		return "its sidecar reports nothing"
	}
	return string(reason)
}

// TurnText is Turn.String, and why its work failed, or its node does not serve afterwards.
func (f Fleet) TurnText(t Turn) string {
	if why := f.TurnProblem(t); why != "" {
		return fmt.Sprintf("%s: %s", t, why)
	}
	if why := f.TurnWait(t); why != "" {
		return fmt.Sprintf("%s, and node %q does not serve yet: %s", t, t.Node, why)
	}
	return t.String()
}

// TurnWork is the progress of the work of a turn.
type TurnWork int

// The work of a turn. Work that failed keeps the turn: the next node would fail as well.
const (
	_ TurnWork = iota
	TurnWorkUnderWay
	TurnWorkFailed
	// TurnWorkInterrupted: the command of the turn does not run any more, and reported no end. It
	// was killed, or its machine stopped.
	TurnWorkInterrupted
	TurnWorkDone
)

// HasFailed reports whether people have to begin the work again, or to give the turn up.
func (w TurnWork) HasFailed() bool { return w == TurnWorkFailed || w == TurnWorkInterrupted }

// String returns the word for /status.
func (w TurnWork) String() string {
	switch w {
	case TurnWorkFailed, TurnWorkInterrupted:
		return "Failed"
	case TurnWorkDone:
		return "Done"
	default:
		return "UnderWay"
	}
}

// Turns are the turns of a fleet.
type Turns struct {
	Limit   int           // how many nodes may hold one; 0: it was not set, and is 1
	Held    []Turn        // sorted by node
	Waiting []TurnRequest // in any order
	Running []NodeID      // the nodes on which the command of a turn runs, or waits for one
}

// Of returns the turn of a node, if it holds one.
func (t Turns) Of(id NodeID) (Turn, bool) {
	i := slices.IndexFunc(t.Held, func(held Turn) bool { return held.Node == id })
	if i < 0 {
		return Turn{}, false
	}
	return t.Held[i], true
}

// Works reports whether the work of a node's turn may be under way: the end of a cordon that people wrote does not return
// the node to service meanwhile.
func (t Turns) Works(id NodeID) bool {
	held, found := t.Of(id)
	return found && held.Work != TurnWorkDone
}

// OfCommand reports whether sidecar turn -- COMMAND holds the turn.
func (t Turn) OfCommand() bool { return t.Kind == TurnOfCommand || t.Kind == TurnOfReboot }

// Overdue reports whether a turn passed its limit. It is kept nevertheless: a node in the
// middle of its work is not a node that serves.
func (t Turn) Overdue(now time.Time) bool { return !t.Until.IsZero() && !now.Before(t.Until) }

// TurnRequest is a node that waits for a turn.
type TurnRequest struct {
	Node    NodeID
	Created int64 // the create revision of its key: its place in the queue

	Since       time.Time // by the clock of who asked
	Message, By string    // as in a Turn
}
