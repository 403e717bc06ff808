package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Error is an event that the protocol does not allow.
type Error struct {
	At    int // in the trace, from 0
	Event Event
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("event %d: %s: %v", e.At, e.Event.Name(), e.Err) }

// Unwrap returns why it is not allowed.
func (e *Error) Unwrap() error { return e.Err }

// Counts is the number of events of each kind in a trace.
type Counts map[string]int

// Validate checks the trace of one run of a sidecar, from its start. In a trace
// without a registrar, a gate may know any registration. The error is a *Error.
func Validate(events []Event) (Counts, error) {
	counts, checker := Counts{}, CheckerOf(events)
	for i, e := range events {
		counts[e.Name()]++
		if err := checker.Apply(e); err != nil {
			return counts, &Error{At: i, Event: e, Err: err}
		}
	}
	return counts, nil
}

// CheckerOf returns the checker for a trace.
func CheckerOf(events []Event) *Checker {
	c := newChecker()
	if !slices.ContainsFunc(events, func(e Event) bool { return e.Published != nil || e.Resumed != nil }) {
		c.node.Published = nil
	}
	return c
}

// Apply checks an event of a leader within its term.
func (l *Leader) Apply(e Event) error {
	switch {
	case e.Round != nil:
		return l.round(e.Round)
	case e.Begin != nil:
		return l.begin(e.Begin)
	case e.End != nil:
		return l.end(e.End)
	case e.Write != nil:
		return l.write(e.Write)
	case e.Resign != nil:
		return l.resign(e.Resign)
	case e.Delete != nil:
		return l.delete(e.Delete)
	}
	return errors.New("it is not an event within a term")
}

func (n *nodeState) apply(e Event) error {
	switch {
	case e.Gate != nil:
		return n.verdict(e.Gate)
	case e.Read != nil:
		return n.read(e.Read)
	case e.Wrote != nil:
		return n.write(e.Wrote)
	case e.Checked != nil:
		return n.check(e.Checked)
	case e.Published != nil:
		return n.publish(e.Published)
	case e.Left != nil:
		return n.leave(e.Left)
	}
	return errors.New("the event is empty")
}

func (e Event) ofLeader() bool {
	return e.Elected != nil || e.Round != nil || e.Begin != nil || e.End != nil || e.Write != nil || e.Resign != nil ||
		e.Delete != nil || e.Over != nil
}

// Name is the kind of the event.
func (e Event) Name() string {
	for name, set := range map[string]bool{
		"elected": e.Elected != nil, "round": e.Round != nil, "begin": e.Begin != nil, "end": e.End != nil, "write": e.Write != nil,
		"resign": e.Resign != nil, "over": e.Over != nil, "gate": e.Gate != nil, "read": e.Read != nil, "wrote": e.Wrote != nil,
		"checked": e.Checked != nil, "published": e.Published != nil, "delete": e.Delete != nil, "left": e.Left != nil,
		"resumed": e.Resumed != nil,
	} {
		if set {
			return name
		}
	}
	return "nothing"
}

// TB is the part of a *testing.T that ForTest needs.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
}

// ForTest returns a hook for one run of a sidecar. At the end of the test, the
// reported events must be valid. Stop the sidecar in a clean-up that is registered
// later.
func ForTest(t TB) Hook {
	t.Helper()
	var mu sync.Mutex // guards events
	var events []Event
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if _, err := Validate(events); err != nil {
			t.Errorf("the trace is not one that the protocol allows: %v", err)
		}
	})
	return func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}
}

// To returns a hook that writes each event as a line of JSON. failed is called when
// that is not possible.
func To(w io.Writer, failed func(error)) Hook {
	var mu sync.Mutex // one line at a time
	return func(e Event) {
		line, err := json.Marshal(e)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		if err != nil {
			failed(err)
		}
	}
}

// Events returns the events of a recording without their times.
func Events(recording []Recorded) []Event {
	out := make([]Event, 0, len(recording))
	for _, r := range recording {
		out = append(out, r.Event)
	}
	return out
}
