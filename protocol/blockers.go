package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// Blocker is a node that holds a leader back, and why.
type Blocker struct {
	Node    NodeID
	Release Release // 0.0.0 where the record is corrupt
	Reason  Reason
	Message string // what to do about it
}

// Blockers returns the registered controllers, alive or not, that now admits
// and next would not. A corrupt record always blocks (4.3, WaitForNodes), one that
// is expired never does (4.9).
func Blockers(now, next Status, f Fleet) []Blocker {
	var out []Blocker
	for _, r := range f.Records {
		if b, blocks := blocks(now, next, r); blocks {
			out = append(out, b)
		}
	}
	return out
}

func blocks(now, next Status, r Record) (Blocker, bool) {
	if !r.Counts() || r.Expired() {
		return Blocker{}, false
	}
	if r.Problem != "" {
		return Blocker{
			Node: r.ID, Reason: RecordCorrupt,
			Message: "its record is corrupt: " + r.Remedy(),
		}, true
	}
	if admitted, _ := Admits(now, r.Node); !admitted {
		return Blocker{}, false
	}
	admitted, reason := Admits(next, r.Node)
	if admitted {
		return Blocker{}, false
	}
	return Blocker{Node: r.ID, Release: r.Node.Version.Release, Reason: reason, Message: blockerMessage(next, r, reason)}, true
}

func blockerMessage(next Status, r Record, reason Reason) string {
	var why string
	switch reason {
	case ReleaseTooOld:
		why = fmt.Sprintf("runs release %s, below %s, which the new objects need; upgrade it", r.Node.Version.Release, next.MinCompatible)
	default:
		why = fmt.Sprintf("needs a reconciler of release %s or newer; this leader is %s", r.Node.MinReconciler, next.Version.Release)
	}
	if !r.Alive {
		why += fmt.Sprintf(" (it is not alive%s; if it has stopped for good: %s)", r.patience(), r.removal())
	}
	return why
}

// patience says how long a leader waits for a node that is not alive, where that
// has an end.
func (r Record) patience() string {
	if r.Node.FenceAfter <= 0 {
		return ""
	}
	return fmt.Sprintf(" and is passed over once it has been gone for %s", r.Node.FenceAfter)
}

// Remedy says why a record is corrupt, and what to do about it; empty: it is
// well.
func (r Record) Remedy() string {
	if r.Problem == "" {
		return ""
	}
	return fmt.Sprintf("%s; its sidecar, if alive, writes it again; if the node is gone: %s", r.Problem, r.removal())
}

// removal is the command that removes the record.
func (r Record) removal() string {
	return fmt.Sprintf("sidecar node remove %s --confirm-stopped", r.ID)
}

// passedOver names the nodes that would be blockers if their records had not
// expired, for people; empty: none.
func passedOver(now, next Status, f Fleet) string {
	var ids []string
	for _, r := range f.Records {
		expired := r.Expired()
		r.Gone = 0
		if _, blocks := blocks(now, next, r); blocks && expired {
			ids = append(ids, string(r.ID))
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return "; passed over, for they have been gone for as long as they said: " + strings.Join(ids, ", ")
}

// newerRecords returns the records of controllers above own, alive or not, but
// those that are expired.
func newerRecords(f Fleet, own Release) []Blocker {
	var out []Blocker
	for _, r := range f.Records {
		if r.Problem != "" || !r.Node.Roles.Controller || !own.Less(r.Node.Version.Release) || r.Expired() {
			continue
		}
		out = append(out, Blocker{Node: r.ID, Release: r.Node.Version.Release, Reason: NewerRelease, Message: newerMessage(r)})
	}
	return out
}

func newerMessage(r Record) string {
	var patience string
	if !r.Alive && r.Node.FenceAfter > 0 {
		patience = fmt.Sprintf(" (it is not alive%s)", r.patience())
	}
	return fmt.Sprintf("the objects are of a newer release and it is registered with %s%s; bring it back, or if it has stopped for good: %s",
		r.Node.Version.Release, patience, r.removal())
}

// removalsDue reports whether no controller of a release below own is
// registered any more, so that objects which the bundle dropped may go (6.3). A
// corrupt record may be anything, and counts as older. So does one that is
// expired: nothing waits for removals, and its node may come back.
func removalsDue(f Fleet, own Release) bool {
	return !slices.ContainsFunc(f.Records, func(r Record) bool {
		return r.Counts() && (r.Problem != "" || r.Node.Version.Release.Less(own))
	})
}

// UpgradeReady reports whether the next upgrade may start: the status is DONE
// at the one release that all registered controllers have, and none is corrupt
// (4.10).
func UpgradeReady(v StatusView, f Fleet) bool {
	if v.Kind != StatusPresent || v.Status.State != Done {
		return false
	}
	controllers := 0
	for _, r := range f.Records {
		switch {
		case !r.Counts():
		case r.Problem != "" || r.Node.Version.Release != v.Status.Version.Release:
			return false
		default:
			controllers++
		}
	}
	return controllers > 0
}
