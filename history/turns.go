package history

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// turnOf returns the happenings of a node that has a turn: the turn, for as long as the node has it, and while its work has
// failed, that. Another turn of the node is another subject.
func turnOf(t protocol.Turn) []Happening {
	what := ""
	if text := t.What(); text != "" {
		what = ": " + text
	}
	if t.By != "" {
		what += ", by " + t.By
	}
	turn := Happening{
		Kind: Turn, Node: t.Node, Subject: t.Since.UTC().Format(time.RFC3339Nano), Reason: warn.TurnUnderWay,
		Message: "planned work" + what, Mark: t.Since.UnixMilli(), // it stays when the key changes
	}
	if t.Since.IsZero() {
		turn.Mark = t.Revision
	}
	if !t.Work.HasFailed() {
		return []Happening{turn}
	}
	failed := turn
	failed.Reason, failed.Message, failed.Mark = warn.TurnFailed, "planned work, which failed"+what, t.Revision
	if t.Problem != "" {
		failed.Message += ": " + t.Problem
	}
	return []Happening{turn, failed}
}
