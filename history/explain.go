package history

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Explanation reports why a node was or was not in service at a time, as far as the history shows.
type Explanation struct {
	Verdict string  // whether it served, for people
	Causes  []Entry // trouble of the node in that minute, which closes no gate by itself but may explain the rest
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
		if e.Node != node || !e.Time.Before(at.Add(time.Minute)) || !e.Open() && e.Until.Before(at) {
			continue
		}
		switch {
		case trouble(e):
			out.Causes = append(out.Causes, e)
		case OutOfService(e) && (closed == nil || saysMore(e, *closed)):
			closed = &e
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

// trouble reports whether clients may notice an entry about a node although its gate stays open, or it is the cause
// of a closed one.
func trouble(e Entry) bool {
	switch e.Kind {
	case Service, Etcd, Turn:
		return true
	case Warning:
		return e.Subject == "" || e.Subject == string(e.Node) // nodes also warn of others
	case Gate, APIServer, Sidecar, Node, Object, Bundle, Override, Cordon, Leader, Status, Blocked, Upgrade, Rollback, Member, Store:
	}
	return false
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
	if e.Reason == protocol.NoPresence {
		span += " (it may have stopped up to one --lease-ttl before)"
	}
	return fmt.Sprintf("out of service %s: %s: %s", span, e.Reason, e.Sentence())
}

// Cause describes an entry in Causes, for people.
func Cause(e Entry) string {
	span := "from " + e.Time.UTC().Format(time.RFC3339)
	switch {
	case e.Open():
		span += " until now"
	case e.Until.After(e.Time):
		span += " for " + short(e.Until.Sub(e.Time))
	default:
		span = "at " + e.Time.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s: %s: %s", span, e.Reason, e.Sentence())
}
