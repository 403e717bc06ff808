package protocol

import (
	"fmt"
	"strings"
	"time"
)

// This file implements both sides of docs/protocol-nodes.md#dead-nodes. A sidecar with
// --expire-dead-nodes=D promises to close its gate if it cannot confirm its presence
// for half of D (Overdue). In return a leader may ignore its record after the
// presence was missing for D (Expired).

// Overdue reports whether a sidecar must close its gate. unconfirmed is the time
// since it sent the last request that confirmed its presence. Half of expireAfter
// is the limit: clocks may run at different speeds, and a gate needs a moment to
// close. An expireAfter of 0 means that leaders never ignore the record.
func Overdue(unconfirmed, expireAfter time.Duration) bool {
	return expireAfter > 0 && unconfirmed >= expireAfter/2
}

// Expired reports whether a leader ignores the record. The record's sidecar closed its
// gate by now, and must write the record before it opens the gate again. A corrupt record
// promises nothing.
func (r *Record) Expired() bool {
	return r.Problem == "" && !r.Alive && r.Node.ExpireAfter > 0 && r.Gone >= r.Node.ExpireAfter
}

// expiryNote says when the leader stops waiting for a node that is not alive;
// empty: never.
func (r *Record) expiryNote() string {
	if r.Node.ExpireAfter <= 0 {
		return ""
	}
	return fmt.Sprintf(" and is ignored once it has been gone for %s", r.Node.ExpireAfter)
}

// ignoredNote lists, for people, the nodes that are no blockers only because their
// records expired; empty: none.
func ignoredNote(now, next Status, f Fleet) string {
	var ids []string
	for _, r := range f.Records {
		if !r.Expired() {
			continue
		}
		present := *r
		present.Gone = 0 // as before it expired
		if _, blocks := blocker(now, next, &present, ""); blocks {
			ids = append(ids, string(r.ID))
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return "; ignoring expired nodes (gone longer than their --expire-dead-nodes): " + strings.Join(ids, ", ")
}
