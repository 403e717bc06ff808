package backup

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// This file decides when a node saves a scheduled snapshot of the etcd that the sidecars run, and when it
// warns that there is no recent one (docs/clusters.md#scheduled).

// Timing is a node's knowledge of when it saves snapshots.
type Timing struct {
	Every time.Duration // 0: it saves none
	// Begun is since when this sidecar could save one; zero: it cannot, because its node runs no
	// member that votes.
	Begun time.Time
	// Newest is the time of the newest one, not after now; zero: there is none.
	Newest time.Time
	// Problem is why the last attempt failed, and Tried is when; empty: it did not.
	Problem string
	Tried   time.Time
	Retry   time.Duration // the pause after Tried
}

// lateSnapshots is how many intervals old the newest snapshot may become: one that failed once is
// tried again in time.
const lateSnapshots = 2

// Runs reports whether the node saves snapshots now.
func (s Timing) Runs() bool { return s.Every > 0 && !s.Begun.IsZero() }

// Due returns when the next snapshot is to be saved; the zero time if that is at once. It is for a
// schedule that runs.
func (s Timing) Due() time.Time {
	due := time.Time{}
	if !s.Newest.IsZero() {
		due = s.Newest.Add(s.Every)
	}
	if retry := s.Tried.Add(s.Retry); s.Problem != "" && retry.After(due) {
		due = retry
	}
	return due
}

// WarnsAt returns when the newest snapshot becomes too old; zero: never.
func (s Timing) WarnsAt() time.Time {
	switch {
	case !s.Runs():
		return time.Time{}
	case s.Newest.After(s.Begun):
		return s.Newest.Add(lateSnapshots * s.Every)
	}
	// A node that was off for long saves one first.
	return s.Begun.Add(lateSnapshots * s.Every)
}

// interval is a time for people: 6h.
func interval(d time.Duration) string {
	text := d.String()
	if d >= time.Minute {
		text = strings.TrimSuffix(text, "0s")
	}
	if d >= time.Hour && strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Warning is about a snapshot that is missing or too old, if it is.
func (s Timing) Warning(now time.Time) (protocol.Warning, bool) {
	if !s.Runs() || now.Before(s.WarnsAt()) && (s.Problem == "" || !s.Newest.IsZero()) {
		return protocol.Warning{}, false
	}
	message := fmt.Sprintf("this node saves a snapshot of etcd every %s, and ", interval(s.Every))
	if s.Newest.IsZero() {
		message += "has none"
	} else {
		message += "its newest one is of " + s.Newest.UTC().Format(time.RFC3339)
	}
	if s.Problem != "" {
		message += ": " + s.Problem
	}
	return protocol.Warning{Reason: warn.SnapshotOld, Message: message}, true
}
