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

	retryAt time.Time       // no job begins before; zero: at once
	retries backoff.Backoff // after jobs that failed

	// trying is when the first job began since the API last served a job; zero:
	// no job began since.
	trying     time.Time
	yieldAfter time.Duration // how long a leader accepts that its API is unreachable

	deleteAt  time.Time       // no record is deleted before; zero: at once
	deletions backoff.Backoff // after deletions that failed

	rereadAt time.Time       // when the mark is read again that holds the leader back; zero: not planned
	rereads  backoff.Backoff // between two readings

	lapsed   bool            // the objects were kept after the last pass and no longer are
	lapsedAt time.Time       // when that last happened
	lapses   backoff.Backoff // before the full pass that repairs it
}

func newDeadlines(yieldAfter time.Duration) deadlines {
	return deadlines{
		yieldAfter: yieldAfter,
		retries:    backoff.Backoff{First: minJobPause, Max: maxJobPause},
		lapses:     backoff.Backoff{First: minJobPause, Max: maxJobPause},
		rereads:    backoff.Backoff{First: minJobPause, Max: maxRereadPause},
		deletions:  backoff.Backoff{First: minJobPause, Max: maxJobPause},
	}
}

// next returns the first instant after now at which time alone can change a
// decision; zero: there is none. answered is when the API last answered. others
// are instants that matter besides; zero ones do not count.
func (d *deadlines) next(answered time.Time, others ...time.Time) time.Time {
	var first time.Time
	for _, at := range append(others, d.deleteAt, d.retryAt, d.rereadAt, d.resync, d.unreachableAt(answered)) {
		if at.After(d.now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// passDue reports whether it is time for another full pass.
func (d *deadlines) passDue() bool { return !d.resync.IsZero() && !d.now.Before(d.resync) }

// mayBegin reports whether the pause after the last failure is over.
func (d *deadlines) mayBegin() bool { return !d.now.Before(d.retryAt) }

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

// jobFailed delays the next job.
func (d *deadlines) jobFailed() { d.retryAt = time.Now().Add(d.retries.Next()) }

// apiWorked notes that a job ended for which the API was reachable.
func (d *deadlines) apiWorked() { d.trying = time.Time{} }

// surveyed notes a survey that succeeded. The next job may begin at once, but if
// that fails, its pause is longer than the one before: only a complete pass shows
// that the cause of the failures is over.
func (d *deadlines) surveyed() {
	d.retryAt = time.Time{}
	d.apiWorked()
}

// mayDelete reports whether the pause after the last deletion that failed is over.
func (d *deadlines) mayDelete() bool { return !d.now.Before(d.deleteAt) }

// deletionFailed delays the next deletion.
func (d *deadlines) deletionFailed() { d.deleteAt = time.Now().Add(d.deletions.Next()) }

// deletionWorked lets the next deletion follow at once.
func (d *deadlines) deletionWorked() {
	d.deleteAt = time.Time{}
	d.deletions.Reset()
}

// rereadDue reports whether the mark that holds the leader back is read again now.
// If not, it plans when.
func (d *deadlines) rereadDue() bool {
	if d.rereadAt.IsZero() {
		d.rereadAt = d.now.Add(d.rereads.Next())
	}
	if d.now.Before(d.rereadAt) {
		return false
	}
	d.rereadAt = time.Time{}
	return true
}

// rereadingEnded notes that the mark does not hold the leader back.
func (d *deadlines) rereadingEnded() {
	d.rereadAt = time.Time{}
	d.rereads.Reset()
}

// retryNow lets the next job begin at once.
func (d *deadlines) retryNow() {
	d.retryAt = time.Time{}
	d.retries.Reset()
}

// passCompleted makes the next full pass due after interval.
func (d *deadlines) passCompleted(interval time.Duration) {
	d.resync, d.lapsed = time.Now().Add(interval), false
	d.retryNow()
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
