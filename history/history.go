// Package history records the past of a fleet, as pure functions: it compares two snapshots of facts, and folds
// the differences into entries that grow (docs/history.md). It uses no clock and no I/O: times are passed in.
// Package internal/journal keeps the entries in etcd.
//
// A sidecar writes the entries about its own node. All sidecars notice a change of the fleet, such as a new status
// or a node whose sidecar is missing; the leader writes it.
package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Kind is the subject of an entry. People filter by it: a Kind is never renamed.
type Kind string

// The kinds. An entry marked "while it lasts" ends.
const (
	Sidecar   Kind = "sidecar"   // a sidecar started; until its gate opened
	Gate      Kind = "gate"      // a gate that was open closed, while it lasts
	APIServer Kind = "apiserver" // a kube-apiserver is not ready, while it lasts
	Etcd      Kind = "etcd"      // etcd does not answer a node, while it lasts
	Service   Kind = "service"   // a service ended by itself, and was started again
	Warning   Kind = "warning"   // a node reports a problem, while it lasts
	Object    Kind = "object"    // objects failed, were fought over, repaired or removed
	Bundle    Kind = "bundle"    // a node's bundle changed, waits or differs from the others', or was rejected
	Override  Kind = "override"  // people let a node serve in spite of its gate, while it lasts
	Node      Kind = "node"      // a record changed, or a sidecar is missing, while it lasts
	Cordon    Kind = "cordon"    // people took a node out of service, while it lasts
	Turn      Kind = "turn"      // a node's turn: planned work, while it lasts
	Leader    Kind = "leader"    // a node began to lead
	Status    Kind = "status"    // the reconciler status changed
	Blocked   Kind = "blocked"   // the leader waits for a node, while it lasts
	Upgrade   Kind = "upgrade"   // the fleet goes to a newer release, while it lasts
	Rollback  Kind = "rollback"  // the fleet goes to an older release, while it lasts
	Member    Kind = "member"    // a member of etcd was added or has left
	Store     Kind = "store"     // etcd went back to an older state
)

// Kinds lists every kind, for the command line.
func Kinds() []Kind {
	return []Kind{
		Sidecar, Gate, APIServer, Etcd, Service, Warning, Object, Bundle, Override, Node, Cordon, Turn, Leader, Status, Blocked,
		Upgrade, Rollback, Member, Store,
	}
}

// Reasons that only entries use, and no verdict, warning or blocker.
const (
	Started       protocol.Reason = "Started"       // a sidecar started
	Restarted     protocol.Reason = "Restarted"     // a service was started again
	Registered    protocol.Reason = "Registered"    // a node wrote its first record
	Removed       protocol.Reason = "Removed"       // a node's record was deleted
	Changed       protocol.Reason = "Changed"       // the release, the roles, the bundle or the status
	Elected       protocol.Reason = "Elected"       // a node began to lead
	Repaired      protocol.Reason = "Repaired"      // the leader restored objects that others changed
	Pruned        protocol.Reason = "Pruned"        // the leader removed objects that the bundle dropped
	Begun         protocol.Reason = "Begun"         // an upgrade or a rollback is under way
	Done          protocol.Reason = "Done"          // an upgrade or a rollback ended
	WentBack      protocol.Reason = "WentBack"      // etcd was restored, or is another one
	MemberAdded   protocol.Reason = "MemberAdded"   // a member joined etcd
	MemberLeft    protocol.Reason = "MemberLeft"    // a member left etcd
	Unreachable   protocol.Reason = "Unreachable"   // etcd does not answer
	OverrideBegun protocol.Reason = "OverrideBegun" // people override a gate
)

// Entry is one thing that happened, once or several times.
type Entry struct {
	ID    string          `json:"-"` // its name in the store
	Time  time.Time       `json:"time"`
	Until time.Time       `json:"until,omitzero"` // zero: it goes on
	Kind  Kind            `json:"kind"`
	Node  protocol.NodeID `json:"node"`
	// Subject is the other thing that it is about, such as an object; may be empty.
	Subject string          `json:"subject,omitempty"`
	Reason  protocol.Reason `json:"reason"`
	// Message is the first one, and Parts are all of an entry that has others too.
	Message string `json:"message"`
	Parts   []Part `json:"parts,omitempty"`
	Count   int    `json:"count"`
	// Objects are the first maxObjects that were repaired or removed, or failed after the nodes of an upgrade, and More is
	// how many others there were.
	Objects []string `json:"objects,omitempty"`
	More    int      `json:"more,omitempty"`
	// Lasted is the total duration of a thing that ended and began again, and Spans are the newest of its times. Older
	// programs wrote no spans. Of an upgrade, a span ends when every node serves with the release.
	Lasted time.Duration `json:"lasted,omitempty"`
	Spans  []Span        `json:"spans,omitempty"`
	// Out is how long each node was out of service in an upgrade, and Waits how long the leader waited for each.
	Out   map[protocol.NodeID]time.Duration `json:"out,omitempty"`
	Waits map[protocol.NodeID]time.Duration `json:"waits,omitempty"`
}

// Open reports whether it goes on.
func (e Entry) Open() bool { return e.Until.IsZero() }

// whole is its time from its beginning to its end.
func (e Entry) whole() Span { return Span{e.Time, e.Until} }

// End is when it ended; if it goes on, that is now.
func (e Entry) End(now time.Time) time.Time { return e.whole().end(now) }

// Concerns reports whether an entry is about a node.
func (e Entry) Concerns(id protocol.NodeID) bool {
	_, out := e.Out[id]
	_, waits := e.Waits[id]
	return e.Node == id || out || waits
}

// Sentence is the message, with the counts and durations that grew since.
func (e Entry) Sentence() string {
	text := e.Message + e.laterParts()
	if e.Count > 1 {
		text += fmt.Sprintf(" (%d times%s)", e.Count, e.inAll())
	}
	if ofRelease(e) {
		return text + e.afterNodes() + each("; it waited for ", e.Waits) + each("; out of service: ", e.Out)
	}
	return text + e.named()
}

// Note is the message with the objects named so far, cut at maxNote. An Event keeps the note that it was created with.
func (e Entry) Note() string {
	if ofRelease(e) {
		return protocol.Cut(e.Message+e.afterNodes(), maxNote)
	}
	return protocol.Cut(e.Message+e.named(), maxNote)
}

// maxNote is the most bytes that kube-apiservers accept in the note of an Event.
const maxNote = 1024

// inAll says for how long a thing that ended and began again lasted.
func (e Entry) inAll() string {
	switch {
	case e.Lasted <= 0:
		return ""
	case e.Open():
		return ", " + short(e.Total()) + " before this one"
	}
	return ", " + short(e.Total()) + " in all"
}

// maxShown bounds the nodes that a sentence names.
const maxShown = 10

func each(title string, nodes map[protocol.NodeID]time.Duration) string {
	if len(nodes) == 0 {
		return ""
	}
	ids := slices.SortedFunc(maps.Keys(nodes), func(a, b protocol.NodeID) int {
		return cmp.Or(cmp.Compare(nodes[b], nodes[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, id := range ids[:min(len(ids), maxShown)] {
		parts = append(parts, fmt.Sprintf("%s %s", id, short(nodes[id])))
	}
	if more := len(ids) - maxShown; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return title + strings.Join(parts, ", ")
}

// short formats a duration for people.
func short(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// MaxMessage and MaxNodes bound an entry, so that 1,000 entries take less than 1 MB. A turn, which is rare, has its
// whole command, who typed it, and how it ended.
const (
	MaxMessage     = 400
	maxTurnMessage = protocol.MaxWarningMessage + MaxMessage
	MaxNodes       = 8
)

// clip cuts a message, at a character.
func clip(text string) string { return protocol.Cut(text, MaxMessage) }

// clipped is the message of a happening in its entry.
func (h Happening) clipped() string {
	if h.Kind == Turn {
		return protocol.Cut(h.Message, maxTurnMessage)
	}
	return clip(h.Message)
}
