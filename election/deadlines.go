package election

import (
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

const (
	minJobPause = 500 * time.Millisecond
	maxJobPause = 30 * time.Second
	// maxRereadPause is the longest pause between two readings of a mark that holds
	// the leader back.
	maxRereadPause = time.Minute
	// lapseMemory is how long a lapse counts: the pass after a later one is made
	// without a pause again.
	lapseMemory = 5 * time.Minute
)

// deadlines are a leader's knowledge of time, on the monotonic clock.
type deadlines struct {
	now time.Time // the start of this round: everything in it is decided at one instant
	// confirmed is when a transaction first confirmed the leadership
	// (docs/protocol.md#sessions); zero: none did.
	confirmed time.Time
	resync    time.Time // when the next full pass is due; zero: no pass was complete yet

	jobs attempts // each is made again after it failed

	// trying is when the first job began since the API last served a job; zero:
	// no job began since.
	trying     time.Time
	yieldAfter time.Duration // how long a leader accepts that its API is unreachable

	deletions attempts // of records

	rereads attempts // of the mark that holds the leader back; one without a time is not planned

	lapsed   bool            // the objects were kept after the last pass and no longer are
	lapsedAt time.Time       // when that last happened
	lapses   backoff.Backoff // before the full pass that repairs it
}

func newDeadlines(yieldAfter time.Duration) deadlines {
	return deadlines{
		yieldAfter: yieldAfter,
		jobs:       attempts{pauses: backoff.Backoff{First: minJobPause, Max: maxJobPause}},
		lapses:     backoff.Backoff{First: minJobPause, Max: maxJobPause},
		rereads:    attempts{pauses: backoff.Backoff{First: minJobPause, Max: maxRereadPause}},
		deletions:  attempts{pauses: backoff.Backoff{First: minJobPause, Max: maxJobPause}},
	}
}

// attempts are made after longer and longer pauses.
type attempts struct {
	at     time.Time // none is made before; zero: at once
	pauses backoff.Backoff
}

func (a *attempts) due(now time.Time) bool { return !now.Before(a.at) }

// failed delays the next attempt.
func (a *attempts) failed() { a.at = time.Now().Add(a.pauses.Next()) }

// reset lets the next attempt follow at once.
func (a *attempts) reset() {
	a.at = time.Time{}
	a.pauses.Reset()
}

// next returns the first instant after now at which time alone can change a
// decision; zero: there is none. answered is when the API last answered. others
// are instants that matter besides; zero ones do not count.
func (d *deadlines) next(answered time.Time, others ...time.Time) time.Time {
	var first time.Time
	for _, at := range append(others, d.deletions.at, d.jobs.at, d.rereads.at, d.resync, d.unreachableAt(answered)) {
		if at.After(d.now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// passDue reports whether it is time for another full pass.
func (d *deadlines) passDue() bool { return !d.resync.IsZero() && !d.now.Before(d.resync) }

// unreachableAt returns when the API will have been unreachable for too long
// unless it answers; zero: no job needs it.
func (d *deadlines) unreachableAt(answered time.Time) time.Time {
	if d.trying.IsZero() {
		return time.Time{}
	}
	since := d.trying
	if answered.After(since) {
		since = answered
	}
	return since.Add(d.yieldAfter)
}

func (d *deadlines) unreachableTooLong(answered time.Time) bool {
	at := d.unreachableAt(answered)
	return !at.IsZero() && !d.now.Before(at)
}

// jobBegan notes the start of a survey or a pass.
func (d *deadlines) jobBegan() {
	if d.trying.IsZero() {
		d.trying = d.now
	}
}

// apiWorked notes that a job ended for which the API was reachable.
func (d *deadlines) apiWorked() { d.trying = time.Time{} }

// surveyed notes a survey that succeeded. The next job may begin at once, but if
// that fails, its pause is longer than the one before: only a complete pass shows
// that the cause of the failures is over.
func (d *deadlines) surveyed() {
	d.jobs.at = time.Time{}
	d.apiWorked()
}

// rereadDue reports whether the mark that holds the leader back is read again now.
// If not, it plans when.
func (d *deadlines) rereadDue() bool {
	if d.rereads.at.IsZero() {
		d.rereads.at = d.now.Add(d.rereads.pauses.Next())
	}
	if !d.rereads.due(d.now) {
		return false
	}
	d.rereads.at = time.Time{}
	return true
}

// passCompleted makes the next full pass due after interval.
func (d *deadlines) passCompleted(interval time.Duration) {
	d.resync, d.lapsed = time.Now().Add(interval), false
	d.jobs.reset()
	d.apiWorked()
}

// lapse makes a full pass due, because the objects are no longer kept. Passes that
// do not help for long follow each other ever more slowly. It returns the pause
// before the pass.
func (d *deadlines) lapse() time.Duration {
	now := time.Now()
	if now.Sub(d.lapsedAt) > lapseMemory {
		d.lapses.Reset()
	}
	pause := d.lapses.Pause()
	if due := now.Add(pause); due.Before(d.resync) {
		d.resync = due
	}
	d.lapsed, d.lapsedAt = true, now
	d.lapses.Next()
	return pause
}
