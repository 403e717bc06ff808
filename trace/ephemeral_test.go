package trace

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
)

// deletes is a leader that deletes a record which has expired.
func deletes(t *testing.T) []Event {
	t.Helper()
	s := newScript(t)
	expired := protocol.Record{ID: "pod", Revision: 9, Gone: time.Minute, Node: protocol.Node{
		ID: "pod", Version: local.Version, Roles: protocol.Roles{Controller: true}, ExpireAfter: time.Minute, Ephemeral: true,
	}}
	s.input.Fleet.Records = append(s.input.Fleet.Records, &expired)
	s.round(protocol.StepSurvey)
	s.add(Event{Delete: &Delete{Record: expired}})
	return s.events
}

// leaves is a node that stops, and deletes its record.
func leaves() []Event {
	node := aNode()
	closed := Gate{Facts: protocol.Facts{Stopping: true}}
	for _, e := range node {
		if e.Gate != nil {
			closed.Facts = e.Gate.Facts
			closed.Facts.Served, closed.Facts.Stopping = e.Gate.Verdict.Ready, true
			closed.ReadAt, closed.Linear = e.Gate.ReadAt, e.Gate.Linear
		}
	}
	closed.Verdict = protocol.Judge(closed.Facts)
	facts := noderecord.RetireFacts{Ephemeral: true, Roles: protocol.Roles{Controller: true}, Present: true, GateClosed: true, Refused: time.Second}
	return append(node, Event{Gate: &closed}, Event{Left: &Left{Facts: facts}})
}

func deletions(e *Event) **Delete { return &e.Delete }
func lefts(e *Event) **Left       { return &e.Left }

func TestValidate_ephemeral(t *testing.T) {
	deleting, leaving := deletes(t), leaves()
	for _, events := range [][]Event{deleting, leaving} {
		if _, err := Validate(written(t, events)); err != nil {
			t.Error(err)
		}
	}
	wrote := aNode()[2]
	for _, tc := range []struct {
		name   string
		events []Event
		want   string
	}{
		{"a record that was written since", nth(deleting, 1, deletions, func(d *Delete) { d.Record.Revision++ }), "not due"},
		{"a record twice", insertAfter(deleting, 1, deletions), "not due"},
		{"a record that has not expired", nth(deleting, 1, rounds, func(r *Round) {
			r.Input.Fleet.Records = slices.Clone(r.Input.Fleet.Records)
			expired := *r.Input.Fleet.Records[1]
			expired.Gone--
			r.Input.Fleet.Records[1] = &expired
			r.Step = protocol.Next(r.Input)
		}), "not due"},
		{"its own record while its kube-apiserver runs", nth(leaving, 1, lefts, func(l *Left) { l.Facts.Refused = 0 }), "WaitToRetire"},
		{"its own record with an open gate", slices.Delete(slices.Clone(leaving), len(leaving)-2, len(leaving)-1), "gate is open"},
		{"a record after it has deleted it", append(slices.Clip(leaving), wrote), "after it has deleted it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Validate(tc.events); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
