package report

import (
	"fmt"
	"strings"
)

// Reconcile describes the last pass of this process, and the repairs since. The zero value: this process made no pass.
// It contains names of objects, fields and field managers, but never contents of objects.
type Reconcile struct {
	Running bool `json:"running"` // a survey or a pass runs now
	// LastSuccess is the end of the last complete pass; null: none.
	LastSuccess Timestamp `json:"lastSuccess"`
	// LastError is why the last pass ended early or was incomplete; empty: it was complete, or there was none.
	LastError       string  `json:"lastError"`
	DurationSeconds float64 `json:"durationSeconds"` // of the last pass
	Objects         Objects `json:"objects"`         // of the last pass
	// PruneHeld is the brake that keeps objects which the bundle dropped, and how to release it; empty: no brake is on.
	PruneHeld string `json:"pruneHeld"`
	// PrunedObjects are the first MaxNamed of the objects that the last pass removed, sorted.
	PrunedObjects List[string] `json:"prunedObjects"`

	Failures      List[Failure] `json:"failures"`      // at most maxFailures, sorted by object
	TotalFailures int           `json:"totalFailures"` // how many there are, also those that Failures leaves out
	Failing       int           `json:"failing"`       // how many of them are of required objects: they keep the status from becoming DONE

	// Strangers carry the set's label and are not of the set: other users made them. They are left alone.
	Strangers      List[Stranger] `json:"strangers"` // at most 10, sorted by object
	TotalStrangers int            `json:"totalStrangers"`

	Drift Drift `json:"drift"`
}

// Stranger is an object that carries the set's label and is not of the set.
type Stranger struct {
	Object  string `json:"object"`  // like `ServiceAccount "ns/x"`
	Manager string `json:"manager"` // the field manager that set the label; empty: unknown
	Command string `json:"command"` // deletes the object
}

// Objects is how many objects of a pass are in which state. Desired is Applied + Unchanged + Failed.
type Objects struct {
	Desired   int `json:"desired"`   // in the bundle, and those that Lockstep adds to each set
	Fence     int `json:"fence"`     // of Desired, those that Lockstep adds
	Applied   int `json:"applied"`   // created, changed or recreated
	Unchanged int `json:"unchanged"` // already as wanted, or left to the slower repairs of a fight
	Failed    int `json:"failed"`    // rejected by the API server, or not reached
	Pruned    int `json:"pruned"`    // removed, because the bundle dropped them
	Owed      int `json:"owed"`      // dropped by the bundle, and not removed yet (docs/protocol-objects.md#removals)
}

// Failure is one object that could not be applied or removed.
type Failure struct {
	Object  string    `json:"object"`  // like `ClusterRole "x"`
	Message string    `json:"message"` // the API server's, or a remedy
	Source  string    `json:"source"`  // where its manifest is, like "roles.yaml:15"; empty: there is none
	Remedy  string    `json:"remedy"`  // how to fix the manifest; AddFailure sets it
	Since   Timestamp `json:"since"`   // of the first pass in which it failed, without one in between in which it did not

	Required bool `json:"required"` // it keeps the status from becoming DONE
}

// maxFailures bounds Reconcile.Failures.
const maxFailures = 50

// AddFailure counts a failure, and lists it with its remedy if there is room.
func (r *Reconcile) AddFailure(f Failure) {
	r.TotalFailures++
	if f.Required {
		r.Failing++
	}
	if f.Source != "" {
		f.Remedy = fmt.Sprintf("correct the manifest (%s) or what rejects it, or give it the annotation lockstep.dev/required: \"false\"", f.Source)
	}
	if len(r.Failures) < maxFailures {
		r.Failures = append(r.Failures, f)
	}
}

// FailingSince returns when an object that fails now began to fail: earlier, by this report, or
// now.
func (r Reconcile) FailingSince(object string, now Timestamp) Timestamp {
	for _, f := range r.Failures {
		if f.Object == object {
			return f.Since
		}
	}
	return now
}

// Held returns how many objects the brake keeps; 0: no brake is on.
func (r Reconcile) Held() int {
	if r.PruneHeld == "" {
		return 0
	}
	return r.Objects.Owed
}

// Drift describes the changes of other writers between the passes, and the repairs (docs/protocol-objects.md#drift).
type Drift struct {
	// Watching: every kind of the set, and its parent, are watched. Only a leader with nothing else to do watches them.
	Watching bool `json:"watching"`
	// Problem is why a kind is not watched although it should be; empty: none.
	Problem    string      `json:"problem"`
	Repairs    int64       `json:"repairs"` // objects repaired by this process between passes
	LastRepair Timestamp   `json:"lastRepair"`
	Fights     List[Fight] `json:"fights"` // sorted by object
	// Repaired are the objects of the last MaxNamed repairs, the newest last.
	Repaired List[string] `json:"repaired"`
}

// MaxNamed bounds the lists of objects that were removed or repaired.
const MaxNamed = 20

// CountRepair counts a repair of an object, and names it. It leaves the list of an earlier report as it is.
func (d *Drift) CountRepair(object string, at Timestamp) {
	d.Repairs++
	d.LastRepair = at
	d.Repaired = append(d.Repaired[max(0, len(d.Repaired)-MaxNamed+1):len(d.Repaired):len(d.Repaired)], object)
}

// Fight is an object that another writer changes again and again.
type Fight struct {
	Object string `json:"object"` // like `ClusterRole "x"`
	// Manager is the other writer's field manager; empty: unknown, as it is when the object is deleted.
	Manager    string       `json:"fieldManager"`
	Fields     List[string] `json:"fields"`     // that the other writer took last, like ".data.x"; the first few
	Repairs    int          `json:"repairs"`    // since Since
	Since      Timestamp    `json:"since"`      // of the first repair
	LastRepair Timestamp    `json:"lastRepair"` // of the last one
	Message    string       `json:"message"`    // describes it, with the number of repairs and a remedy
}

// Explained returns the fight with its Message.
func (f Fight) Explained() Fight {
	f.Message = f.sentence(fmt.Sprintf(" (repaired %s)", times(f.Repairs)))
	return f
}

// Advice is the Message without the number of repairs, which changes with each of them.
func (f Fight) Advice() string { return f.sentence("") }

func (f Fight) sentence(repaired string) string {
	who, what, remove := "another writer", "this object", "this object"
	if f.Manager != "" {
		who = fmt.Sprintf("field manager %q", f.Manager)
	}
	if len(f.Fields) > 0 {
		what = strings.Join(f.Fields, ", ")
		remove = what + " of this object"
	}
	return fmt.Sprintf("%s keeps changing %s%s; stop that writer, or leave %s out of the bundle", who, what, repaired, remove)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
