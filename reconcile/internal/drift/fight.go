package drift

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
	"github.com/lockstep-dev/lockstep/report"
)

const (
	// fightRepairs of one object within fightWindow are a fight.
	fightRepairs = 5
	fightWindow  = time.Minute
	// fightOver is how long an object must stay unchanged for a fight to end.
	fightOver = 5 * time.Minute
	// The pauses between two repairs in a fight double from the one to the other.
	minFightPause = time.Second
	maxFightPause = 30 * time.Second
)

// Fights counts the repairs of objects, and finds those that another writer keeps
// changing. One goroutine at a time uses it.
type Fights map[applyset.Key]*fight

// fight counts the repairs of one object. It is a fight once its repairs pause.
type fight struct {
	times  []time.Time // of the repairs within fightWindow
	since  time.Time   // of the first
	count  int         // since then
	pauses backoff.Backoff
	change ownership.Change // the last one
}

// Repaired notes a repair after a change, and reports whether a fight begins
// with it.
func (fs Fights) Repaired(k applyset.Key, now time.Time, change ownership.Change) (begun bool) {
	f, known := fs[k]
	if !known {
		f = &fight{}
		fs[k] = f
	}
	f.times = slices.DeleteFunc(f.times, func(at time.Time) bool { return now.Sub(at) > fightWindow })
	if len(f.times) == 0 && !f.isFight() {
		*f = fight{since: now, pauses: backoff.Backoff{First: minFightPause, Max: maxFightPause}}
	}
	f.times = append(f.times, now)
	f.count++
	if change.Manager != "" || f.change.Manager == "" {
		f.change = change
	}
	if f.isFight() || len(f.times) >= fightRepairs {
		begun = !f.isFight()
		f.pauses.Next()
	}
	return begun
}

func (f *fight) isFight() bool { return f.pauses.Pause() > 0 }

// last is the time of the last repair.
func (f *fight) last() time.Time {
	if len(f.times) == 0 {
		return f.since
	}
	return f.times[len(f.times)-1]
}

// NotBefore returns when an object may be repaired again; zero: at once.
func (fs Fights) NotBefore(k applyset.Key) time.Time {
	if f, known := fs[k]; known {
		return f.last().Add(f.pauses.Pause())
	}
	return time.Time{}
}

// Contested reports whether an object is in a fight.
func (fs Fights) Contested(k applyset.Key) bool {
	f, known := fs[k]
	return known && f.isFight()
}

// Repairs returns how often an object was repaired since its first repair.
func (fs Fights) Repairs(k applyset.Key) int {
	if f, known := fs[k]; known {
		return f.count
	}
	return 0
}

// Expire forgets objects that stayed unchanged for long enough. It returns when
// to call it next; zero: there is nothing left to forget.
func (fs Fights) Expire(now time.Time) (next time.Time) {
	for k, f := range fs {
		over := f.last().Add(fightOver)
		if !now.Before(over) {
			delete(fs, k)
			continue
		}
		if next.IsZero() || over.Before(next) {
			next = over
		}
	}
	return next
}

// Report returns the objects in a fight, in the order of their keys. Each repair asks for it before it begins, and
// hundreds of objects may have been repaired once.
func (fs Fights) Report() []report.Fight {
	contested := map[applyset.Key]*fight{}
	for k, f := range fs {
		if f.isFight() {
			contested[k] = f
		}
	}
	var out []report.Fight
	for _, k := range applyset.SortedKeys(contested) {
		f := contested[k]
		out = append(out, report.Fight{
			Object: k.String(), Manager: f.change.Manager, Fields: f.change.Fields, Repairs: f.count,
			Since: report.At(f.since), LastRepair: report.At(f.last()),
		}.Explained())
	}
	return out
}
