// Package report defines the reports of reconciliation: the last pass, the repairs since, and
// previews. Its types are plain values without a client library behind them. Package reconcile
// fills them, package httpapi and the commands show them. It starts no goroutine.
//
// A Report contains names of objects, fields and field managers, but never contents of objects.
// A Preview shows contents, except of Secrets.
package report

import (
	"fmt"
	"strings"
	"time"
)

// Report describes the last pass of this process, and the repairs since. The zero Report: this
// process made no pass.
type Report struct {
	// LastSuccess is the end of the last complete pass; zero: none.
	LastSuccess time.Time
	// LastError is why the last pass ended early or was incomplete; empty: it was
	// complete, or there was none.
	LastError string
	Duration  time.Duration // of the last pass

	Objects Counts // of the last pass

	// PruneHeld is the brake that keeps objects which the bundle dropped, and how
	// to release it; empty: no brake is on.
	PruneHeld string

	Failures      []Failure // at most MaxFailures, sorted by object
	TotalFailures int       // how many there are, also those that Failures leaves out
	Failing       int       // how many of them are of required objects: they keep the status from becoming DONE

	// Strangers carry the set's label and are not of the set: other users made them.
	// They are left alone.
	Strangers      []Stranger // at most 10, sorted by object
	TotalStrangers int

	Drift Drift
}

// Stranger is an object that carries the set's label and is not of the set.
type Stranger struct {
	Object  string // like `ServiceAccount "ns/x"`
	Manager string // the field manager that set the label; empty: unknown
	Command string // deletes the object
}

// Counts is how many objects of a pass are in which state. Desired is Applied +
// Unchanged + Failed.
type Counts struct {
	Desired   int // in the bundle, and those that Lockstep adds to each set
	Fence     int // of Desired, those that Lockstep adds
	Applied   int // created, changed or recreated
	Unchanged int // already as wanted, or left to the slower repairs of a fight
	Failed    int // rejected by the API server, or not reached
	Pruned    int // removed, because the bundle dropped them
	Owed      int // dropped by the bundle, and not removed yet (docs/protocol.md#removals)
}

// Failure is one object that could not be applied or removed.
type Failure struct {
	Object  string    // like `ClusterRole "x"`
	Message string    // the API server's, or a remedy
	Source  string    // where its manifest is, like "roles.yaml:15"; empty: there is none
	Since   time.Time // of the first pass in which it failed, without one in between in which it did not

	Required bool // it keeps the status from becoming DONE
}

// MaxFailures bounds Report.Failures.
const MaxFailures = 50

// AddFailure counts a failure, and lists it if there is room.
func (r *Report) AddFailure(f Failure) {
	r.TotalFailures++
	if f.Required {
		r.Failing++
	}
	if len(r.Failures) < MaxFailures {
		r.Failures = append(r.Failures, f)
	}
}

// FailingSince returns when an object that fails now began to fail: earlier, by this report, or
// now.
func (r Report) FailingSince(object string, now time.Time) time.Time {
	for _, f := range r.Failures {
		if f.Object == object {
			return f.Since
		}
	}
	return now
}

// Remedy says how to fix it.
func (f Failure) Remedy() string {
	if f.Source == "" {
		return ""
	}
	return fmt.Sprintf("correct the manifest (%s) or what rejects it, or give it the annotation lockstep.dev/required: \"false\"", f.Source)
}

// Held returns how many objects the brake keeps; 0: no brake is on.
func (r Report) Held() int {
	if r.PruneHeld == "" {
		return 0
	}
	return r.Objects.Owed
}

// Trouble is the failure of the newest request to the API server, since the last answer that
// shows that the API can be used. The zero Trouble: there is none.
type Trouble struct {
	Code    int    // of the answer; 0: there was none
	Refused bool   // the API server rejects the user: 401 or 403
	Request string // like `GET https://127.0.0.1:6443/api/v1/namespaces`
	Detail  string // the API server's answer, or why there was none
	Since   time.Time
}

// String is the request and its failure.
func (t Trouble) String() string {
	if t.Code != 0 {
		return fmt.Sprintf("%s: %d: %s", t.Request, t.Code, t.Detail)
	}
	return t.Request + ": " + t.Detail
}

// Drift describes the changes of other writers between the passes, and the repairs
// (docs/protocol.md#drift).
type Drift struct {
	// Watching: every kind of the set, and its parent, are watched. Only a leader
	// with nothing else to do watches them.
	Watching bool
	// Problem is why a kind is not watched although it should be; empty: none.
	Problem    string
	Repairs    int64     // objects repaired by this process between passes
	LastRepair time.Time // zero: none
	Fights     []Fight   // sorted by object
}

// Fight is an object that another writer changes again and again.
type Fight struct {
	Object string // like `ClusterRole "x"`
	// Manager is the other writer's field manager; empty: unknown, as it is when
	// the object is deleted.
	Manager string
	Fields  []string  // that the other writer took last, like ".data.x"; the first few
	Repairs int       // since Since
	Since   time.Time // of the first repair
	Last    time.Time // of the last repair
}

// Message describes the fight, with the number of repairs and a remedy.
func (f Fight) Message() string { return f.sentence(fmt.Sprintf(" (repaired %s)", times(f.Repairs))) }

// Advice is the same, without the number, which changes with each repair.
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
