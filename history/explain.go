package history

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Explanation reports why a node was or was not in service at a time, as far as the history shows.
type Explanation struct {
	Verdict string  // whether it served, for people
	Node    []Entry // about the node, around that time, the newest last
	Fleet   []Entry // about the others
}

// causesBefore and causesAfter bound the time around an incident in which Explain looks for causes.
const (
	causesBefore = 5 * time.Minute
	causesAfter  = time.Minute
)

// Explain joins what happened on a node and in the fleet around a time.
func Explain(all []Entry, node protocol.NodeID, at time.Time) Explanation {
	var out Explanation
	known := false
	var closed *Entry
	for _, e := range all {
		known = known || e.Node == node
		if e.Time.After(at.Add(causesAfter)) || !e.Open() && e.Until.Before(at.Add(-causesBefore)) {
			continue
		}
		if !e.Concerns(node) {
			out.Fleet = append(out.Fleet, e)
			continue
		}
		out.Node = append(out.Node, e)
		// People read minutes: "at 14:02" is all of that minute.
		if e.Node == node && OutOfService(e) && e.Time.Before(at.Add(time.Minute)) && (e.Open() || !e.Until.Before(at)) {
			if closed == nil || saysMore(e, *closed) {
				closed = &e
			}
		}
	}
	switch {
	case !known:
		out.Verdict = "the history has nothing about this node"
	case closed == nil:
		out.Verdict = "it was in service, as far as the history has it"
	default:
		out.Verdict = verdictOf(*closed)
	}
	return out
}

// saysMore reports whether e explains better than the other entry why a node was out of service.
func saysMore(e, than Entry) bool {
	return e.Kind != Sidecar && (than.Kind == Sidecar || than.Kind == Node)
}

func verdictOf(e Entry) string {
	span := fmt.Sprintf("from %s until now", e.Time.UTC().Format(time.RFC3339))
	if !e.Open() {
		span = fmt.Sprintf("from %s for %s", e.Time.UTC().Format(time.RFC3339), short(e.Until.Sub(e.Time)))
	}
	return fmt.Sprintf("out of service %s: %s: %s", span, e.Reason, e.Sentence())
}
