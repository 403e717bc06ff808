// Package trace defines the events that the shells around package protocol report to tests and to the
// flight recorder, and checks that the protocol allows each event. The shells are the leader of package
// election, the gate of package status and the registrar of package fleet. The model checker contains a
// second implementation of each; it is checked against the same rules (docs/model.md#traces).
//
// A shell reports through a Hook in its configuration. In production that is the hook of a
// Recorder. A second implementation can check its own shells with it. It starts no goroutines.
package trace

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
)

// Hook receives the events of the shells of one sidecar. It may be called by
// several goroutines. nil: nothing is reported.
type Hook func(Event)

// Report calls the hook, if there is one.
func (h Hook) Report(e Event) {
	if h != nil {
		h(e)
	}
}

// Event is one thing that a shell did. Exactly one of the pointers is set.
type Event struct {
	Elected *Elected `json:",omitempty"`
	Round   *Round   `json:",omitempty"`
	Begin   *Begin   `json:",omitempty"`
	End     *End     `json:",omitempty"`
	Write   *Write   `json:",omitempty"`
	Resign  *Resign  `json:",omitempty"`
	Delete  *Delete  `json:",omitempty"`
	Over    *Over    `json:",omitempty"`

	Gate *Gate `json:",omitempty"`

	Read      *Read      `json:",omitempty"`
	Wrote     *Wrote     `json:",omitempty"`
	Checked   *Checked   `json:",omitempty"`
	Published *Published `json:",omitempty"`
	Left      *Left      `json:",omitempty"`

	Resumed *Resumed `json:",omitempty"`
}

// The events of a leader. Times are relative to when its leadership was confirmed.
type (
	// Elected begins a term.
	Elected struct {
		Epoch     int64
		DrainTime time.Duration
	}
	// Round is a decision: a snapshot, the leader's other knowledge, and the step.
	Round struct {
		Input protocol.Input
		Step  protocol.Step
		// Restored: the store went back before. It counts only in the first round,
		// in which the leader decides on Progress.Predecessors.
		Restored bool
	}
	// Begin is the start of a job: a survey, a pass, or keeping the objects.
	Begin struct {
		Kind  protocol.StepKind
		Work  protocol.Work
		Quiet time.Duration // from when on no other request can land; 0: none can
	}
	// End is the end of a job.
	End struct {
		Kind    protocol.StepKind
		Work    protocol.Work
		Used    bool // the leader uses the result; otherwise it stopped the job
		Failed  bool
		Mark    protocol.Mark    // of a survey
		Outcome protocol.Outcome // of a pass; Unsure is below
		Unsure  time.Duration    // when the newest request of unknown outcome was given up; 0: there is none
	}
	// Write is the transaction of a step that writes the status.
	Write struct {
		Status protocol.Status
		Guard  protocol.Guard
	}
	// Resign is the transaction in which a leader says that it has drained.
	Resign struct {
		Facts  protocol.ResignFacts
		Status protocol.Status
		At     time.Duration
	}
	// Delete is the transaction that deletes an ephemeral record that expired.
	Delete struct{ Record protocol.Record }
	// Over ends a term. Stuck: with a job that did not end.
	Over struct{ Stuck bool }
)

// Gate is the verdict of a gate, and its facts.
type Gate struct {
	Facts   protocol.Facts
	Verdict protocol.Verdict
	// ReadAt is the revision at which the status in the facts was read, and Rewinds
	// how often the store went back before; 0: it was not read.
	ReadAt  int64
	Rewinds int
	// Linear: the status was read by a linearizable request of the gate, not by its
	// watch.
	Linear bool
}

// The events of a registrar.
type (
	// Read is the record that a registration is about to replace.
	Read struct {
		Found  bool
		Record protocol.Record
		// First are the roles of a record that the sidecar creates.
		First protocol.Roles
	}
	// Wrote is a record that was written.
	Wrote struct {
		Over   int64 // the revision that it replaced; 0: none
		Record protocol.Record
		Local  protocol.Local
		BootID string
	}
	// Checked is the comparison of an observed record with the running sidecar.
	Checked struct {
		Facts noderecord.RegistrationFacts
		Must  bool
	}
	// Published is a registration that the gate learns.
	Published struct{ Registration protocol.Registration }
	// Left is the transaction in which a sidecar that stops deletes its record.
	Left struct{ Facts noderecord.RetireFacts }
)
