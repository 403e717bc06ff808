package trace

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
)

const drainTime = 13 * time.Second

var (
	release = protocol.Release{Major: 1, Minor: 1}
	local   = protocol.Local{ID: "a", Version: protocol.Version{Release: release}, Digest: "d", Epoch: 7}
)

// script writes a trace as a leader would that does everything right.
type script struct {
	*testing.T
	events   []Event
	input    protocol.Input
	revision int64
}

func newScript(t *testing.T) *script {
	t.Helper()
	s := &script{T: t, revision: 20}
	s.input.Local = local
	s.input.Status = protocol.StatusView{Kind: protocol.StatusAbsent}
	s.input.Fleet = protocol.Fleet{Revision: 20, Records: []*protocol.Record{{
		ID: "a", Revision: 5, Created: 5, Writes: 1, Alive: true,
		Node: protocol.Node{ID: "a", Version: local.Version, Digest: "d", Roles: protocol.Roles{Controller: true}},
	}}}
	s.add(Event{Elected: &Elected{Epoch: local.Epoch, DrainTime: drainTime}})
	return s
}

func (s *script) add(e Event) { s.events = append(s.events, e) }

// round decides, and checks that the step is of a kind.
func (s *script) round(want protocol.StepKind) protocol.Step {
	s.Helper()
	in := s.input
	step := protocol.Next(in)
	if step.Kind != want {
		s.Fatalf("got the step %s, want %s", step, want)
	}
	s.add(Event{Round: &Round{Input: in, Step: step}})
	return step
}

func (s *script) begin(step protocol.Step, quiet time.Duration) {
	s.add(Event{Begin: &Begin{Kind: step.Kind, Work: step.Work, Quiet: quiet}})
	if step.Kind == protocol.StepReconcile {
		s.input.Mark = s.input.Mark.With(step.Work.Content)
	}
}

func (s *script) end(step protocol.Step, e End) {
	e.Kind, e.Work = step.Kind, step.Work
	s.add(Event{End: &e})
	switch {
	case !e.Used || e.Failed:
	case step.Kind == protocol.StepSurvey:
		s.input.Mark = e.Mark
		s.input.Progress.Predecessors = s.input.Progress.Predecessors.Surveyed(e.Mark)
	case e.Outcome.Complete:
		s.input.Mark = s.input.Mark.After(step.Work.Content, e.Outcome)
		s.input.Progress.Finished = step.Work.Content
	}
}

func (s *script) write(step protocol.Step) {
	s.add(Event{Write: &Write{Status: step.Status, Guard: step.Guard}})
	s.revision++
	s.input.Fleet.Revision = s.revision
	s.input.Status = protocol.StatusView{Kind: protocol.StatusPresent, Status: step.Status, Revision: s.revision}
}

// resign ends the term at that time.
func (s *script) resign(at time.Duration) {
	f := protocol.ResignFacts{
		Status: s.input.Status, Leader: local.ID, Epoch: local.Epoch, Predecessors: s.input.Progress.Predecessors,
		Waited: at >= drainTime, Ended: true,
	}
	if st, drained := protocol.Drain(f); drained {
		s.add(Event{Resign: &Resign{Facts: f, Status: st, At: at}})
	}
	s.add(Event{Over: &Over{}})
}

// firstTerm is a first reconciliation, and a graceful end.
func firstTerm(t *testing.T) []Event {
	s := newScript(t)
	survey := s.round(protocol.StepSurvey)
	s.begin(survey, drainTime)
	s.end(survey, End{Used: true, Mark: protocol.Mark{Kind: protocol.MarkAbsent}})
	pass := s.round(protocol.StepReconcile)
	s.begin(pass, 0)
	s.end(pass, End{Used: true, Outcome: protocol.Outcome{Complete: true, HighestEpoch: pass.Work.Content.Epoch}})
	s.write(s.round(protocol.StepWrite))
	keep := s.round(protocol.StepHold)
	s.begin(keep, 0)
	s.round(protocol.StepHold)
	s.end(keep, End{})
	s.resign(time.Second)
	return s.events
}

// lostTerm is a leader that finds no status, cannot read the mark at once, and has
// a pass whose newest request has an unknown outcome.
func lostTerm(t *testing.T) []Event {
	s := newScript(t)
	survey := s.round(protocol.StepSurvey)
	s.begin(survey, drainTime)
	s.end(survey, End{Used: true, Failed: true})
	survey = s.round(protocol.StepSurvey)
	s.begin(survey, drainTime)
	old := protocol.Content{Release: release, Digest: "old", Epoch: 3}
	s.end(survey, End{Used: true, Mark: protocol.Mark{Kind: protocol.MarkPresent, FirstDone: true, Entries: []protocol.Content{old}}})
	s.write(s.round(protocol.StepWrite)) // the status from the mark
	s.write(s.round(protocol.StepWrite)) // and that it begins
	pass := s.round(protocol.StepReconcile)
	s.begin(pass, drainTime)
	s.end(pass, End{Failed: true, Unsure: 2 * time.Second})
	s.resign(16 * time.Second)
	return s.events
}

// aNode is a node that registers, becomes ready, loses its record and registers
// again.
func aNode() []Event {
	running := protocol.Local{ID: "a", Version: local.Version, Digest: "d"}
	record := func(revision int64) protocol.Record {
		return protocol.Record{ID: "a", Revision: revision, Created: revision, Writes: 1, Node: protocol.Node{
			ID: "a", Version: running.Version, Digest: "d", BootID: "b", Roles: protocol.Roles{Controller: true}, Serves: true,
		}}
	}
	var out []Event
	facts, ready := protocol.Facts{Local: running, Reached: true}, false
	gate := func(change func(g *Gate)) {
		g := Gate{}
		facts.Served = ready
		g.Facts = facts
		change(&g)
		g.Verdict = protocol.Judge(g.Facts)
		facts, ready = g.Facts, g.Verdict.Ready
		out = append(out, Event{Gate: &g})
	}
	registers := func(revision int64) {
		r := protocol.Registration{Matches: true, Controller: true, Revision: revision}
		out = append(out, Event{Read: &Read{First: protocol.Roles{Controller: true}}},
			Event{Wrote: &Wrote{Record: record(revision), Local: running, BootID: "b"}},
			Event{Published: &Published{Registration: r}})
		gate(func(g *Gate) { g.Facts.Registration, g.Facts.Status = r, protocol.StatusView{} })
		gate(func(g *Gate) {
			g.Facts.Status = protocol.StatusView{
				Kind: protocol.StatusPresent, Revision: 4, Status: protocol.Status{State: protocol.Done, Version: running.Version},
			}
			g.ReadAt, g.Linear = revision+1, true
		})
	}
	gate(func(*Gate) {})
	registers(10)
	fresh := noderecord.RegistrationFacts{Found: true, Record: record(10), Last: record(10), Local: running, BootID: "b"}
	lost := fresh
	lost.Found, lost.Record = false, protocol.Record{}
	out = append(out, Event{Checked: &Checked{Facts: fresh}}, Event{Checked: &Checked{Facts: lost, Must: true}}, Event{Published: &Published{}})
	gate(func(g *Gate) { g.Facts.Registration, g.Facts.Status = protocol.Registration{}, protocol.StatusView{} })
	registers(20)
	return out
}

func TestValidate(t *testing.T) {
	for name, events := range map[string][]Event{
		"a first reconciliation": firstTerm(t), "a lost status": lostTerm(t), "a node": aNode(),
		"two terms": append(firstTerm(t), lostTerm(t)...),
	} {
		t.Run(name, func(t *testing.T) {
			counts, err := Validate(written(t, events))
			if err != nil {
				t.Error(err)
			}
			total := 0
			for _, n := range counts {
				total += n
			}
			if total != len(events) {
				t.Errorf("got %d events, want %d", total, len(events))
			}
		})
	}
}

// written writes a trace and reads it again.
func written(t *testing.T, events []Event) []Event {
	t.Helper()
	var b bytes.Buffer
	hook := To(&b, func(err error) { t.Error(err) })
	for _, e := range events {
		hook(e)
	}
	b.WriteString(`{"Round": {"Inp`) // its sidecar was killed
	out, err := ReadRecording(&b)
	if err != nil {
		t.Fatal(err)
	}
	return Events(out)
}

func TestReadRecording_garbage(t *testing.T) {
	if _, err := ReadRecording(strings.NewReader("{\n{}\n")); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("got %v, want an error of line 1", err)
	}
}

// nth returns a copy of a trace in which the nth event that pick finds is changed.
// An event from which pick returns nil does not count.
func nth[T any](events []Event, n int, pick func(*Event) **T, change func(*T)) []Event {
	out := append([]Event(nil), events...)
	for i := range out {
		at := pick(&out[i])
		if *at == nil {
			continue
		}
		if n--; n == 0 {
			changed := **at
			change(&changed)
			*at = &changed
		}
	}
	return out
}

func rounds(e *Event) **Round        { return &e.Round }
func begins(e *Event) **Begin        { return &e.Begin }
func ends(e *Event) **End            { return &e.End }
func writes(e *Event) **Write        { return &e.Write }
func resigns(e *Event) **Resign      { return &e.Resign }
func gates(e *Event) **Gate          { return &e.Gate }
func wrotes(e *Event) **Wrote        { return &e.Wrote }
func checks(e *Event) **Checked      { return &e.Checked }
func publishes(e *Event) **Published { return &e.Published }

// without drops the nth event that pick finds.
func without[T any](events []Event, n int, pick func(*Event) **T) []Event {
	var out []Event
	for i := range events {
		if *pick(&events[i]) != nil {
			if n--; n == 0 {
				continue
			}
		}
		out = append(out, events[i])
	}
	return out
}

// TestValidate_refuses breaks each rule once.
func TestValidate_refuses(t *testing.T) {
	first, lost, node := firstTerm(t), lostTerm(t), aNode()
	other := protocol.Content{Release: release, Digest: "other", Epoch: 9}
	tests := []struct {
		name   string
		events []Event
		want   string
	}{
		{"another step than the protocol's", nth(first, 3, rounds, func(r *Round) { r.Step.Status.MinCompatible = release }), "the protocol says"},
		{"another kind of step", nth(first, 1, rounds, func(r *Round) { r.Step.Kind = protocol.StepAwait }), "the protocol says"},
		{"a step that does not wait", nth(lost, 5, rounds, func(r *Round) { r.Step.Work.Wait = false }), "the protocol says"},
		{"a decision of another epoch", nth(first, 2, rounds, func(r *Round) { r.Input.Local.Epoch = 6 }), "leads in epoch 7"},
		{"a mark that was not surveyed", nth(first, 2, rounds, func(r *Round) { r.Input.Mark.HighestEpoch = 4 }), "decides on the mark"},
		{"a pass that was not finished", nth(first, 2, rounds, func(r *Round) { r.Input.Progress.Finished = other }), "decides on the progress"},
		{"predecessors that were never shown to be drained", nth(lost, 3, rounds, func(r *Round) { r.Input.Progress.Predecessors = protocol.Drained }), "decides on the progress"},
		{"a mark without what its pass wrote", nth(first, 3, rounds, func(r *Round) { r.Input.Mark.Entries = nil }), "decides on the mark"},
		{"a full pass that is due too early", nth(first, 1, rounds, func(r *Round) { r.Input.Progress.Due = true }), "a full pass is due"},

		{"a job without a step", append([]Event{first[0]}, first[2:]...), "it begins Survey"},
		{"other work than that of the step", nth(first, 2, begins, func(b *Begin) { b.Work.Content = other }), "it begins Reconcile"},
		{"removals that are not due", nth(lost, 3, begins, func(b *Begin) { b.Work.Removals = !b.Work.Removals }), "it begins Reconcile"},
		{"a pass that does not wait for former leaders", nth(lost, 3, begins, func(b *Begin) { b.Quiet = 0 }), "can land until 13s"},
		{"a pass that waits too short", nth(lost, 3, begins, func(b *Begin) { b.Quiet = 12 * time.Second }), "can land until 13s"},
		{"two jobs at a time", insertAfter(first, 2, begins), "while Reconcile runs"},
		{"the end of a job that does not run", nth(first, 2, ends, func(e *End) { e.Work.Content = other }), "which does not run"},
		{"a job that goes on beside another step", besideResignation(t), "goes on beside"},
		{"a failed survey whose mark is used", nth(lost, 1, ends, func(e *End) { e.Failed = false; e.Mark.Kind = protocol.MarkAbsent }), "decides on the mark"},
		{"a stopped pass whose result is used", nth(first, 2, ends, func(e *End) { e.Used = false }), "decides on the mark"},

		{"another status than that of the step", nth(first, 1, writes, func(w *Write) { w.Status.Epoch = 6 }), "the step is"},
		{"another guard than that of the step", nth(lost, 2, writes, func(w *Write) { w.Guard.StatusRevision = 0 }), "the step is"},
		{"a write without a step", without(first, 3, rounds), "the step is"},
		{"a status that is written twice", insertAfter(first, 1, writes), "twice"},
		{"a resignation with a job", without(first, 3, ends), "while Hold runs"},
		{"a resignation with a request that can still land", nth(lost, 1, resigns, func(r *Resign) { r.At = 14 * time.Second }), "can land until 15s"},
		{"a resignation that has not waited", nth(lost, 1, resigns, func(r *Resign) { r.At = 12 * time.Second }), "has waited 12s"},
		{"a resignation with other predecessors", nth(lost, 1, resigns, func(r *Resign) { r.Facts.Predecessors = protocol.Drained }), "it resigns on"},
		{"a resignation with another status", nth(first, 1, resigns, func(r *Resign) { r.Status.Leader = "b" }), "the protocol says"},
		{"a term within another", append(first[:len(first)-1:len(first)-1], lost...), "within another"},
		{"a round after the term", append(slices.Clip(first), first[1]), "there is no term"},
		{"a term that ends with a job", append(without(without(first, 3, ends), 1, resigns), Event{}), "the term ends"},

		{"another verdict than the protocol's", nth(node, 1, gates, func(g *Gate) { g.Verdict.Ready = true }), "the protocol says"},
		{"a gate that forgets that it served", nth(node, 4, gates, func(g *Gate) { g.Facts.Served = false; g.Verdict = protocol.Judge(g.Facts) }), "served=false"},
		{"a status that was read before the registration", nth(node, 3, gates, func(g *Gate) { g.ReadAt = 9 }), "before the registration at 10"},
		{"a status from a watch, right after the registration", nth(node, 3, gates, func(g *Gate) { g.Linear = false }), "from a watch"},
		{"a status that is newer than its read", nth(node, 3, gates, func(g *Gate) { g.Facts.Status.Revision = 12 }), "was read at revision 11"},
		{"a registration that was not published", without(node, 1, publishes), "has not published"},
		{"a status of an earlier registration", nth(node, 5, gates, func(g *Gate) {
			g.Facts.Status = protocol.StatusView{Kind: protocol.StatusAbsent}
			g.ReadAt, g.Linear = 11, true
			g.Verdict = protocol.Judge(g.Facts)
		}), "before the registration at 20"},

		{"a record of another release", nth(node, 1, wrotes, func(w *Wrote) { w.Record.Node.Version = protocol.Version{} }), "it writes the record"},
		{"a record with another role", nth(node, 1, wrotes, func(w *Wrote) { w.Record.Node.Roles.Worker = true }), "it writes the roles"},
		{"a record with the role of members, without a member", nth(node, 1, wrotes, func(w *Wrote) { w.Record.Node.Roles.Consensus = true }), "it writes the roles"},
		{"a record over one that was not read", nth(node, 1, wrotes, func(w *Wrote) { w.Over = 3 }), "has not read"},
		{"a record that was lost unnoticed", nth(node, 2, checks, func(c *Checked) { c.Must = false }), "the protocol says true"},
		{"a comparison with another record", nth(node, 1, checks, func(c *Checked) { c.Facts.Last.Created = 11; c.Must = true }), "has checked or written"},
		{"a registration without a write", nth(node, 2, publishes, func(p *Published) { p.Registration = protocol.Registration{Matches: true, Revision: 10} }), "has not written"},
		{"a registration of another revision", nth(node, 1, publishes, func(p *Published) { p.Registration.Revision = 9 }), "its record is of revision 10"},
		{"a registration with a role that the record does not have", nth(node, 1, publishes, func(p *Published) { p.Registration.Controller = false }), "its record is of revision 10"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Validate(test.events)
			if at, refused := errors.AsType[*Error](err); !refused || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v at %+v, want an error with %q", err, at, test.want)
			}
		})
	}
}

// besideResignation is a leader that keeps the objects and sees a newer node.
func besideResignation(t *testing.T) []Event {
	t.Helper()
	events := without(firstTerm(t), 3, ends) // of keeping the objects
	hold := events[len(events)-3].Round
	resigning := *hold
	newer := &protocol.Record{ID: "b", Revision: 19, Alive: true, Node: protocol.Node{
		ID: "b", Version: protocol.Version{Release: protocol.Release{Major: 2}}, Roles: protocol.Roles{Controller: true},
	}}
	resigning.Input.Fleet.Records = append(resigning.Input.Fleet.Records[:1:1], newer)
	resigning.Step = protocol.Next(resigning.Input)
	return append(events[:len(events)-2:len(events)-2], Event{Round: &resigning}, Event{Round: &resigning})
}

// insertAfter doubles the nth event that pick finds.
func insertAfter[T any](events []Event, n int, pick func(*Event) **T) []Event {
	var out []Event
	for i := range events {
		out = append(out, events[i])
		if *pick(&events[i]) != nil {
			if n--; n == 0 {
				out = append(out, events[i])
			}
		}
	}
	return out
}

// TestEvent_oneOfEach: each pointer of an event has a name.
func TestEvent_oneOfEach(t *testing.T) {
	kind := reflect.TypeFor[Event]()
	for i := range kind.NumField() {
		var e Event
		reflect.ValueOf(&e).Elem().Field(i).Set(reflect.New(kind.Field(i).Type.Elem()))
		if got := e.Name(); got != strings.ToLower(kind.Field(i).Name) {
			t.Errorf("got %q for %s", got, kind.Field(i).Name)
		}
	}
}
