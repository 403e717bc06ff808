package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// The histories here contain three releases. 1.2.0 needs all nodes (A), and is not
// ready before its objects exist (M). It removes "dropped", and 1.3.0 adds it
// again.
var (
	r1 = protocol.Release{Major: 1, Minor: 1}
	r2 = protocol.Release{Major: 1, Minor: 2}
	r3 = protocol.Release{Major: 1, Minor: 3}
)

func bundles() []Bundle {
	return []Bundle{
		{Release: r1, M: r1, A: r1, Forms: map[string]string{"same": "s", "changed": "old", "dropped": "d"}},
		{Release: r2, M: r2, A: r2, Forms: map[string]string{"same": "s", "changed": "new"}},
		{Release: r3, M: r1, A: r3, Forms: map[string]string{"same": "s", "changed": "new", "dropped": "again"}},
	}
}

// story is a history written by hand. Each event gets a revision of its own, ten
// milliseconds after the one before, and is received and read at once.
type story struct {
	History
	now    time.Duration
	epochs map[string]int64 // of the nodes' newest candidates
}

func newStory() *story {
	return &story{History: History{Bundles: bundles()}, epochs: map[string]int64{}}
}

func (s *story) add(e Event) *story {
	s.now += 10 * time.Millisecond
	e.Revision, e.Seen = s.revision()+1, s.now+time.Millisecond
	s.Events = append(s.Events, e)
	s.Readings = append(s.Readings, Reading{Sent: e.Seen, Got: e.Seen, Revision: e.Revision})
	return s
}

func (s *story) revision() int64 {
	if len(s.Events) == 0 {
		return 0
	}
	return s.Events[len(s.Events)-1].Revision
}

// together makes the last two events one transaction.
func (s *story) together() *story {
	s.Events[len(s.Events)-1].Revision--
	s.Readings[len(s.Readings)-1].Revision--
	return s
}

// later lets time pass.
func (s *story) later(d time.Duration) *story {
	s.now += d
	s.Readings = append(s.Readings, Reading{Sent: s.now, Got: s.now, Revision: s.revision()})
	return s
}

// foreign makes the last event one of the soak.
func (s *story) foreign() *story {
	s.Events[len(s.Events)-1].Foreign = true
	return s
}

func (s *story) leads(node string) *story {
	s.epochs[node] = s.revision() + 1
	return s.add(Event{Candidate: &Candidate{Key: "leader/" + node, Node: node}})
}

// dies is a leader whose lease ends.
func (s *story) dies(node string) *story {
	return s.add(Event{Candidate: &Candidate{Key: "leader/" + node, Node: node, Gone: true}})
}

// resigns is a leader that records itself as drained and deletes its key.
func (s *story) resigns(node string) *story { return s.drained().dies(node).together() }

// drained is a status in which the leader records itself as drained.
func (s *story) drained() *story {
	for _, e := range slices.Backward(s.Events) {
		if e.Status != nil {
			out := *e.Status
			out.Status.DrainedEpoch = out.Status.Epoch
			return s.add(Event{Status: &out})
		}
	}
	panic("there is no status")
}

// mark is a mark of contents. The first one is the content of the newest DONE.
func (s *story) mark(entries ...Entry) *story {
	return s.add(Event{Mark: &Mark{FirstDone: true, Entries: entries}})
}

// rollback begins one; with the zero release it ends.
func (s *story) rollback(to protocol.Release) *story {
	return s.add(Event{Rollback: &Rollback{Gone: to == protocol.Release{}, To: to}})
}

func (s *story) record(node string, release protocol.Release) *story {
	return s.add(Event{Record: &Record{Node: node, Release: release, M: release, Controller: true}})
}

func (s *story) status(state protocol.State, version, minimum, content protocol.Release, contentEpoch int64, leader string) *story {
	return s.statusOf(s.epochs[leader], state, version, minimum, content, contentEpoch, leader)
}

func (s *story) statusOf(epoch int64, state protocol.State, version, minimum, content protocol.Release, contentEpoch int64, leader string) *story {
	return s.add(Event{Status: &protocol.StatusView{Kind: protocol.StatusPresent, Status: protocol.Status{
		State: state, Version: protocol.Version{Release: version}, MinCompatible: minimum,
		ContentRelease: content, ContentEpoch: contentEpoch, Leader: protocol.NodeID(leader), Epoch: epoch,
	}}})
}

func (s *story) object(name, form string, release protocol.Release, epoch int64) *story {
	return s.add(Event{Object: &Object{Ref: name, UID: "1", Form: form, Release: release, Epoch: epoch}})
}

func (s *story) deleted(name string) *story {
	return s.add(Event{Object: &Object{Ref: name, UID: "1", Gone: true}})
}

// probe is answered at once, after the last event; the next reading closes its
// window.
func (s *story) probe(node string, release protocol.Release, ready bool, reason protocol.Reason) *story {
	at := s.now + 4*time.Millisecond
	s.Probes = append(s.Probes, Probe{Node: node, Instance: 1, Release: release, Sent: at, Got: at, Ready: ready, Reason: reason})
	s.Readings = append(s.Readings, Reading{Sent: at, Got: at, Revision: s.revision()})
	return s
}

// installed is a cluster of 1.1.0 with nodes a and b, and a as leader.
func installed() *story {
	return newStory().record("a", r1).record("b", r1).leads("a").mark(Entry{r1, 1}).
		object("same", "s", r1, 1).object("changed", "old", r1, 1).object("dropped", "d", r1, 1).
		status(protocol.Done, r1, r1, r1, 1, "a").
		probe("a", r1, true, "").probe("b", r1, true, "")
}

// restricted continues until the content is 1.2.0 and nothing is written yet, with
// b as leader, after a left in some way.
func restricted(leave func(*story, string) *story) *story {
	return leave(installed(), "a").record("a", r2).record("b", r2).leads("b").
		status(protocol.Working, r1, r2, r1, 1, "b").
		status(protocol.Working, r1, r2, r2, 2, "b").
		mark(Entry{r1, 1}, Entry{r2, 2})
}

// upgraded continues to 1.2.0.
func upgraded() *story { return leftOver().deleted("dropped") }

// leftOver is 1.2.0 without its removals.
func leftOver() *story {
	return restricted((*story).resigns).object("changed", "new", r2, 2).done()
}

// done finishes 1.2.0, with b as leader.
func (s *story) done() *story {
	return s.mark(Entry{r2, 2}).status(protocol.Done, r2, r2, r2, 2, "b").probe("a", r2, true, "")
}

func TestJudge_nothingWrong(t *testing.T) {
	stories := map[string]*story{
		"an installation": installed(),
		"an upgrade":      upgraded(),
		"a rollback": upgraded().resigns("b").record("a", r1).record("b", r1).leads("a").
			status(protocol.Working, r1, r2, r2, 2, "a").status(protocol.Working, r1, r2, r1, 3, "a").
			mark(Entry{r2, 2}, Entry{r1, 3}).object("changed", "old", r1, 3).object("dropped", "d", r1, 3).mark(Entry{r1, 3}).
			status(protocol.Done, r1, r1, r1, 3, "a").probe("a", r1, true, ""),
		"an object that is left over and changes later": leftOver().record("a", r3).record("b", r3).
			status(protocol.Working, r2, r3, r3, 3, "b").mark(Entry{r2, 2}, Entry{r3, 3}).object("dropped", "again", r3, 3).
			mark(Entry{r3, 3}).status(protocol.Done, r3, r3, r3, 3, "b"),
		"a status that is lost and rebuilt": installed().add(Event{Status: &protocol.StatusView{Kind: protocol.StatusAbsent}}).foreign().
			probe("a", r1, true, "").
			status(protocol.Working, r1, r1, r1, 1, "a").status(protocol.Done, r1, r1, r1, 1, "a"),
		"an edit by a user, and its repair": installed().object("changed", "", r1, 1).foreign().object("changed", "old", r1, 1),
		"a deletion by a user, and its repair": installed().deleted("same").foreign().
			status(protocol.Done, r1, r1, r1, 1, "a").object("same", "s", r1, 1),
		"a late write to an object that the new content has not reached yet": restricted((*story).dies).
			object("changed", "old", r1, 1).object("changed", "new", r2, 2),
		"an answer that may be from before an event": installed().record("b", r2).record("a", r2).slowProbe("a", r1, 30*time.Millisecond),
		"a restriction that shuts out a node without the role": installed().record("a", r2).
			add(Event{Record: &Record{Node: "b", Release: r1, M: r1}}).status(protocol.Working, r1, r2, r1, 1, "a"),
		"a ready node that has lost the role, and has not registered since": installed().
			add(Event{Record: &Record{Node: "b", Release: r1, M: r1, Serves: true}}).probe("b", r1, true, ""),
		"a gate that closes with its own registration": installed().record("b", r2).
			probe("b", r2, false, protocol.ReconcilerTooOld),
	}
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			violations, counts := Judge(s.History)
			for _, v := range violations {
				t.Errorf("%s\n%s", v, Around(s.History, v.Revision, 5))
			}
			if counts.Revisions != int(s.revision()) || counts.Probes != len(s.Probes) || counts.NotPlaced > 0 {
				t.Errorf("got %+v, want %d revisions and %d probes, all placed", counts, s.revision(), len(s.Probes))
			}
		})
	}
}

// slowProbe is an answer that took some time: it was sent that long before the
// last event.
func (s *story) slowProbe(node string, release protocol.Release, took time.Duration) *story {
	s.probe(node, release, true, "")
	s.Probes[len(s.Probes)-1].Sent -= took
	return s
}

func TestJudge_finds(t *testing.T) {
	working := func() *story { // 1.2.0 may write and b is still 1.1.0: the leader did not wait
		return installed().record("a", r2).
			status(protocol.Working, r1, r2, r1, 1, "a").status(protocol.Working, r1, r2, r2, 2, "a")
	}
	served := func(serves bool) *story { // people took the role from b; with serves, it does not know yet
		return installed().record("a", r2).add(Event{Record: &Record{Node: "b", Release: r1, M: r1, Serves: serves}})
	}
	tests := []struct {
		name  string
		story *story
		want  string // the violated invariant
		text  string
		late  bool
	}{
		{"a ready node below A", installed().object("changed", "new", r2, 2).probe("b", r1, true, ""), Compatible, "b #1 of release 1.1.0 was ready", false},
		{"a ready node above the content", installed().record("a", r2).probe("a", r2, true, ""), Compatible, `changed is in the form "old"`, false},
		{"a status wider than the content", installed().record("a", r2).object("changed", "new", r2, 2), Covers, "changed", false},
		{"a status that widens too early", installed().record("a", r2).record("b", r2).
			status(protocol.Working, r1, r2, r1, 1, "a").status(protocol.Working, r2, r2, r2, 2, "a"), Covers, "changed", false},
		{"ready without a record", installed().add(Event{Record: &Record{Node: "a", Gone: true}}).probe("a", r1, true, ""), Registered, "a #1", false},
		{"ready with the record of another release", installed().record("b", r2).probe("b", r1, true, ""), Registered, "b #1", false},
		{"a status by a node that does not lead", installed().statusOf(2, protocol.Done, r1, r1, r1, 1, "b"), OneWriter, "no candidate", false},
		{"a status by a former leader", installed().resigns("a").status(protocol.Done, r1, r1, r1, 1, "a"), OneWriter, "no candidate", false},
		{"a status by a candidate in the queue", installed().leads("b").status(protocol.Done, r1, r1, r1, 1, "b"), OneWriter, "while a leads", false},
		{"a status in another's name", installed().statusOf(3, protocol.Done, r1, r1, r1, 1, "b"), OneWriter, "which belongs to a", false},
		{"a status that a sidecar deletes", installed().add(Event{Status: &protocol.StatusView{Kind: protocol.StatusAbsent}}), OneWriter, "a sidecar deleted", false},
		{"a lower content epoch on an object", upgraded().object("changed", "old", r1, 1), NoStaleWrite, "has content epoch 2", true},
		{"two contents of one epoch", installed().object("changed", "old", r2, 1), NoStaleWrite, "both with content epoch 1", false},
		{"a content epoch that falls", upgraded().status(protocol.Working, r2, r2, r2, 1, "b"), NoStaleWrite, "falls", false},
		{"an object of the content deleted", upgraded().deleted("changed"), NoStaleWrite, "is deleted", true},
		{"a restriction that shuts a node out", working(), GuardHeld, "b (release 1.1.0", false},
		{"a restriction that shuts out a node that has lost the role, and serves", served(true).
			status(protocol.Working, r1, r2, r1, 1, "a"), GuardHeld, "b (release 1.1.0", false},
		{"a ready node that has registered without the role", served(false).probe("b", r1, true, ""), Registered, "b #1", false},
		{"a restriction over a corrupt record", installed().record("a", r2).add(Event{Record: &Record{Node: "b", Corrupt: true}}).
			status(protocol.Working, r1, r2, r1, 1, "a"), GuardHeld, "b (its record is corrupt)", false},
		{"a gate closed by the status", working().probe("b", r1, false, protocol.ReleaseTooOld), Steady, "b #1", false},
		{"DONE without an object", upgraded().deleted("same").status(protocol.Done, r2, r2, r2, 2, "b"), DoneIsDone, "same was deleted", false},
		{"DONE before the objects are in place", installed().record("a", r2).record("b", r2).
			status(protocol.Working, r1, r2, r2, 2, "a").status(protocol.Done, r2, r2, r2, 2, "a"), DoneIsDone, `changed is in the form "old", not "new"`, false},
		{"a late creation while DONE", upgraded().object("dropped", "d", r1, 1), DoneIsDone, "dropped is written", true},
		{"a write for other content", upgraded().object("changed", "old", r2, 2), NoFight, "and the content is 1.2.0", false},
		{"a write before the status names its content", installed().record("a", r2).record("b", r2).
			status(protocol.Working, r1, r2, r1, 1, "a").object("changed", "new", r2, 2), NoFight, "and the content is 1.1.0", false},
		{"an object written again and again", again(upgraded()), NoFight, "without a change", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, _ := Judge(test.story.History)
			if !slices.ContainsFunc(got, func(v Violation) bool {
				return v.Invariant == test.want && strings.Contains(v.Text, test.text) && v.Late == test.late
			}) {
				t.Errorf("got %v, want %s, %q, late %t", got, test.want, test.text, test.late)
			}
		})
	}
}

func again(s *story) *story {
	for range idleWrites + 1 {
		s.object("changed", "new", r2, 2)
	}
	return s
}

// TestClock: without a reading in between, an answer may belong to any of the
// states around it. It is wrong only if it is wrong in all of them.
func TestClock(t *testing.T) {
	s := installed().record("b", r2)
	at := s.Events[len(s.Events)-1].Seen - time.Millisecond // before the record was seen
	s.Probes = []Probe{{Node: "b", Instance: 1, Release: r1, Sent: at, Got: at, Ready: true}}
	if got, _ := Judge(s.History); len(got) > 0 {
		t.Errorf("got %v for an answer that may have come before the record", got)
	}
	s.Probes[0].Sent, s.Probes[0].Got = at+2*time.Millisecond, at+2*time.Millisecond // after it
	if got, _ := Judge(s.History); len(got) == 0 {
		t.Errorf("got nothing for an answer that came after the record was seen")
	}
}
