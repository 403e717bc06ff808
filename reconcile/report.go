package reconcile

import (
	"time"
)

// Report is what /status shows of reconciliation. It never holds contents of
// objects.
type Report struct {
	// LastSuccess is when a pass last found or made everything as wanted; zero:
	// never in this process.
	LastSuccess time.Time
	// LastError is why the last pass could not be done, or was not complete;
	// empty: it was complete.
	LastError string
	Duration  time.Duration // of the last pass

	// Counts of the last pass. Desired is Applied + Unchanged + Failed.
	Desired   int
	Applied   int // created, changed or recreated
	Unchanged int
	Failed    int
	Pruned    int // removed
	Owed      int // removals that wait (DESIGN 6.3)

	// PruneHeld is why nothing is removed although it might be; empty: nothing
	// holds it.
	PruneHeld string

	Failures      []Failure // the first maxFailures of them
	TotalFailures int

	Drift Drift

	DigestInUse string // of the bundle that the last pass was for
}

// Drift is what became of the objects between the passes (DESIGN 6.5).
type Drift struct {
	// Watching: every kind of the set, and its parent, are watched. Only a leader
	// that has nothing else to do does.
	Watching bool
	// Problem is why a kind is not watched though it should be; empty: none.
	Problem    string
	Repairs    int64     // objects put back by this process between passes
	LastRepair time.Time // zero: none
	Fights     []Fight   // by object
}

// Failure is one object that could not be brought to its wanted form, or be
// removed.
type Failure struct {
	Object  string // like `ClusterRole "x"`
	Message string // the API's, or what to do
}

// maxFailures bounds the list in a report.
const maxFailures = 50

// setFailures lists failures in a fixed order.
func (r *Report) setFailures(sets ...map[key]string) {
	for _, failures := range sets {
		for _, k := range sortedKeys(failures) {
			r.TotalFailures++
			if len(r.Failures) < maxFailures {
				r.Failures = append(r.Failures, Failure{Object: k.String(), Message: failures[k]})
			}
		}
	}
}
