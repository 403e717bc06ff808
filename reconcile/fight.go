package reconcile

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
	"github.com/lockstep-dev/lockstep/reconcile/report"
)

const (
	// fightRepairs of one object within fightWindow are a fight.
	fightRepairs = 5
	fightWindow  = time.Minute
	// fightOver is how long an object has to stay as it is for a fight to end.
	fightOver = 5 * time.Minute
	// The pause between two repairs in a fight doubles from the one to the other.
	minFightPause = time.Second
	maxFightPause = 30 * time.Second
)

// quarrel counts the repairs of one object.
type quarrel struct {
	times  []time.Time      // of the repairs within fightWindow
	since  time.Time        // of the first
	count  int              // since then
	pause  time.Duration    // between two repairs; 0: it is no fight yet
	change ownership.Change // the last one
}

// repaired notes a repair, and reports whether it made a fight of it.
func (q *quarrel) repaired(now time.Time, by ownership.Change) (begun bool) {
	q.times = slices.DeleteFunc(q.times, func(at time.Time) bool { return now.Sub(at) > fightWindow })
	if len(q.times) == 0 && q.pause == 0 {
		*q = quarrel{since: now}
	}
	q.times = append(q.times, now)
	q.count++
	if by.Manager != "" || q.change.Manager == "" {
		q.change = by
	}
	if q.pause > 0 || len(q.times) >= fightRepairs {
		begun = q.pause == 0
		q.pause = min(max(2*q.pause, minFightPause), maxFightPause)
	}
	return begun
}

// last is when the object was last repaired.
func (q *quarrel) last() time.Time {
	if len(q.times) == 0 {
		return q.since
	}
	return q.times[len(q.times)-1]
}

// notBefore is when the object may be repaired again.
func (q *quarrel) notBefore() time.Time { return q.last().Add(q.pause) }

// quarrels are those of a set. They belong to whoever has the turn.
type quarrels map[applyset.Key]*quarrel

func (qs quarrels) of(k applyset.Key) *quarrel {
	q, found := qs[k]
	if !found {
		q = &quarrel{}
		qs[k] = q
	}
	return q
}

// notBefore is when an object may be repaired again; zero: at once.
func (qs quarrels) notBefore(k applyset.Key) time.Time {
	if q, found := qs[k]; found {
		return q.notBefore()
	}
	return time.Time{}
}

// contested reports whether an object is in a fight.
func (qs quarrels) contested(k applyset.Key) bool {
	q, found := qs[k]
	return found && q.pause > 0
}

// settle forgets what is over, and returns when there may be more of it; zero:
// never.
func (qs quarrels) settle(now time.Time) (next time.Time) {
	for k, q := range qs {
		over := q.last().Add(fightOver)
		if !now.Before(over) {
			delete(qs, k)
			continue
		}
		if next.IsZero() || over.Before(next) {
			next = over
		}
	}
	return next
}

// fights returns those that are fights, by object.
func (qs quarrels) fights() []report.Fight {
	var out []report.Fight
	for _, k := range applyset.SortedKeys(qs) {
		if q := qs[k]; q.pause > 0 {
			out = append(out, report.Fight{
				Object: k.String(), Manager: q.change.Manager, Fields: q.change.Fields, Repairs: q.count, Since: q.since,
			})
		}
	}
	return out
}
