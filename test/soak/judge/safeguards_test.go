package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// TestSafeguards judges, for each safeguard, histories of programs without it, and
// legal ones that look much like them.
func TestSafeguards(t *testing.T) {
	killed := func() *story { return restricted((*story).dies).object("changed", "new", r2, 2) }
	tests := []safeguardTest{
		{"a changed object keeps its old stamp", restricted((*story).resigns).object("changed", "new", r1, 1).done(), Stamped, "with a stamp of 1.1.0"},
		{"a changed object has the epoch of other content", restricted((*story).resigns).object("changed", "new", r2, 1).done(), Stamped, "with content epoch 1"},
		{"a changed object has no stamp", restricted((*story).resigns).object("changed", "new", protocol.Release{}, 0).done(), Stamped, "without a stamp"},
		{"a new object has no stamp", upgraded().status(protocol.Working, r2, r2, r2, 2, "b").deleted("same").foreign().
			object("same", "s", protocol.Release{}, 0), Stamped, "without a stamp"},
		{"an object that does not change keeps its stamp", upgraded(), "", ""},
		{"a stamp that a user removed comes back", installed().object("changed", "old", protocol.Release{}, 0).foreign().object("changed", "old", r1, 1), "", ""},
		{"a stamp that no leader assigned is removed, and the right one comes back", installed().object("changed", "old", r1, 1<<40).foreign().
			object("changed", "old", protocol.Release{}, 0).object("changed", "old", r1, 1), "", ""},

		{"DONE at once, after a leader that was killed", killed().done(), Waited, "b of epoch 12 wrote DONE 1.2.0 min 1.2.0 at most 0."},
		{"DONE too early, after a leader that was killed", killed().later(12 * time.Second).done(), Waited, "at most 12."},
		{"DONE in time, after a leader that was killed", killed().later(13 * time.Second).deleted("dropped").done(), "", ""},
		{"DONE at once, after a leader that drained", restricted((*story).resigns).object("changed", "new", r2, 2).done(), "", ""},
		{"DONE too early, where etcd is slower", killed().drainsIn(20 * time.Second).later(14 * time.Second).done(), Waited, "at most 14."},
		{"DONE in time, where etcd is slower", killed().drainsIn(20 * time.Second).later(20 * time.Second).deleted("dropped").done(), "", ""},
		{"a status that was drained and lost before the next leader could read it", installed().resigns("a").
			add(Event{Status: &protocol.StatusView{Kind: protocol.StatusAbsent}}).foreign().leads("b").record("a", r2).record("b", r2).
			status(protocol.Working, r1, r1, r1, 1, "b").status(protocol.Working, r1, r2, r1, 1, "b").status(protocol.Working, r1, r2, r2, 2, "b").
			mark(Entry{r1, 1}, Entry{r2, 2}).object("changed", "new", r2, 2).done(), Waited, "had not drained"},
		{"a new leader records itself at once, after a leader that was killed", installed().dies("a").leads("b").
			status(protocol.Done, r1, r1, r1, 1, "b"), "", ""},

		{"a newer leader brings its content in a rollback", installed().rollback(r1).resigns("a").record("a", r2).record("b", r2).leads("b").
			status(protocol.Working, r1, r2, r1, 1, "b").status(protocol.Working, r1, r2, r2, 2, "b"), RollsBack, "people roll back to 1.1.0"},
		{"a newer leader that was elected before the rollback brings its content", installed().resigns("a").record("a", r2).record("b", r2).leads("b").rollback(r1).
			status(protocol.Working, r1, r2, r1, 1, "b").status(protocol.Working, r1, r2, r2, 2, "b"), "", ""},
		{"a newer leader brings its content after a rollback", installed().rollback(r1).rollback(protocol.Release{}).resigns("a").record("a", r2).record("b", r2).leads("b").
			status(protocol.Working, r1, r2, r1, 1, "b").status(protocol.Working, r1, r2, r2, 2, "b"), "", ""},

		{"a leader drains and goes on", drainedOnly(installed()).deleted("same").foreign().object("same", "s", r1, 1), HasDrained, "keeps its key"},
		{"a leader drains and does nothing else", drainedOnly(installed()), HasDrained, "keeps its key"},
		{"a write after a leader has drained", installed().resigns("a").deleted("same").foreign().object("same", "s", r1, 1), HasDrained, "same is written"},
		{"a removal after a leader has drained", leftOver().resigns("b").deleted("dropped"), HasDrained, "dropped is written"},
		{"a mark after a leader has drained", installed().resigns("a").mark(Entry{r1, 1}), HasDrained, "the mark is written"},
		{"a write of the next leader, which has recorded itself", installed().resigns("a").leads("b").status(protocol.Done, r1, r1, r1, 1, "b").
			deleted("same").foreign().object("same", "s", r1, 1), "", ""},
		{"an edit by a user after a leader has drained", installed().resigns("a").object("changed", "", r1, 1).foreign(), "", ""},

		{"the mark never names the content", unmarked().object("changed", "new", r2, 2).status(protocol.Done, r2, r2, r2, 2, "b"), Marked, "changed is written for 1.2.0"},
		{"the mark names the content after its first object", unmarked().object("changed", "new", r2, 2).mark(Entry{r1, 1}, Entry{r2, 2}).done(), Marked, "changed is written"},
		{"DONE while the mark names the former content too", restricted((*story).resigns).object("changed", "new", r2, 2).
			status(protocol.Done, r2, r2, r2, 2, "b"), Marked, "1.1.0@1 1.2.0@2"},
		{"DONE without firstDone", first(false), Marked, "firstDone=false"},
		{"a first reconciliation", first(true), "", ""},
		{"there is no mark at all", newStory().record("a", r1).leads("a").object("same", "s", r1, 1), Marked, "same is written"},
		{"an object is repaired before the mark is, both lost to users", installed().add(Event{Mark: &Mark{Gone: true}}).foreign().
			deleted("same").foreign().object("same", "s", r1, 1).mark(Entry{r1, 1}), "", ""},
		{"an object is written for a content that the repaired mark does not name", installed().add(Event{Mark: &Mark{Damaged: true}}).foreign().
			mark(Entry{r1, 1}).record("a", r2).record("b", r2).status(protocol.Working, r1, r2, r1, 1, "a").
			status(protocol.Working, r1, r2, r2, 2, "a").object("changed", "new", r2, 2), Marked, "changed is written for 1.2.0"},

		{"a removal while an older controller is registered", leftOver().later(time.Minute).record("b", r1).later(time.Minute).deleted("dropped"),
			RemovesDue, "b is registered with 1.1.0"},
		{"a removal in the middle of an upgrade", installed().record("a", r2).resigns("a").leads("a").status(protocol.Working, r1, r1, r2, 2, "a").
			deleted("dropped"), RemovesDue, "b is registered with 1.1.0"},
		{"a removal over a corrupt record", leftOver().add(Event{Record: &Record{Node: "b", Corrupt: true}}).later(time.Minute).deleted("dropped"),
			RemovesDue, "the record of b is corrupt"},
		{"a removal while a newer controller is registered, in a rollback", leftOver().later(time.Minute).record("b", r3).later(time.Minute).deleted("dropped"),
			RemovesDue, "b is registered with 1.3.0"},
		{"a removal that was sent before an older controller registered", leftOver().record("b", r1).later(time.Second).deleted("dropped"), "", ""},
		{"a removal while a worker of an older release is registered", leftOver().add(Event{Record: &Record{Node: "b", Release: r1}}).
			later(time.Minute).deleted("dropped"), "", ""},
		{"a removal with prunePolicy Immediately", immediately(restricted((*story).resigns)).object("changed", "new", r2, 2).
			record("b", r1).later(time.Minute).deleted("dropped").done(), "", ""},

		{"a stale leader creates an object again, and it stays", restricted((*story).dies).later(time.Second).deleted("dropped").
			object("dropped", "d", r1, 1).object("changed", "new", r2, 2).later(14 * time.Second).done(), DoneIsDone, "dropped of 1.1.0 exists"},
		{"a stale leader creates an object again, and it is removed", restricted((*story).dies).later(time.Second).deleted("dropped").
			object("dropped", "d", r1, 1).object("changed", "new", r2, 2).later(14 * time.Second).deleted("dropped").done(), "", ""},
		{"removals become due just before DONE", restricted((*story).resigns).object("changed", "new", r2, 2).record("b", r1).later(time.Minute).
			record("b", r2).done(), "", ""},
		{"removals wait for an older controller", restricted((*story).resigns).object("changed", "new", r2, 2).
			add(Event{Record: &Record{Node: "b", Corrupt: true}}).later(time.Minute).done(), "", ""},
		{"the mark was lost, so that no sidecar knows whose object it is", restricted((*story).dies).add(Event{Mark: &Mark{Gone: true}}).foreign().
			mark(Entry{r1, 1}, Entry{r2, 2}).object("changed", "new", r2, 2).later(14 * time.Second).done(), "", ""},
	}
	checkAll(t, tests)
}

// safeguardTest is a history, and the violation that the judge finds in it.
type safeguardTest struct {
	name  string
	story *story
	want  string // empty: it is legal
	text  string
}

func checkAll(t *testing.T, tests []safeguardTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, _ := Judge(test.story.History)
			found := slices.ContainsFunc(got, func(v Violation) bool {
				return v.Invariant == test.want && strings.Contains(v.Text, test.text)
			})
			if test.want != "" && !found || test.want == "" && len(got) > 0 {
				t.Errorf("got %v, want %q, %q", got, test.want, test.text)
			}
		})
	}
}

// TestPolicies judges histories with removals that do not wait, admission policies,
// other users, and records that expire.
func TestPolicies(t *testing.T) {
	checkAll(t, []safeguardTest{
		{"DONE before the removals, with prunePolicy Immediately", immediately(leftOver()), DoneIsDone, "dropped of 1.1.0 exists"},
		{"DONE after the removals, with prunePolicy Immediately", immediately(restricted((*story).resigns)).object("changed", "new", r2, 2).
			deleted("dropped").done(), "", ""},

		{"DONE while an admission policy changes an object", restricted((*story).resigns).object("changed", "", r2, 2).done(), DoneIsDone, "changed is in no form"},
		{"DONE after an admission policy changed an object", restricted((*story).resigns).object("changed", "", r2, 2).
			object("changed", "new", r2, 2).done(), "", ""},

		{"a sidecar writes an object of another user", installed().object("theirs", "", r1, 5).foreign().object("theirs", "", r1, 0), LeftAlone, "theirs"},
		{"a sidecar deletes an object of another user", installed().object("theirs", "", r1, 5).foreign().deleted("theirs"), LeftAlone, "theirs"},
		{"another user writes its objects", installed().object("theirs", "", r1, 5).foreign().deleted("theirs").foreign(), "", ""},

		{"a restriction that ignores an expired record", expiring(15*time.Second, 15*time.Second, false), "", ""},
		{"a restriction that ignores a record too early", expiring(15*time.Second, 14*time.Second, false), GuardHeld, "b (release 1.1.0"},
		{"a restriction that ignores a record that was written meanwhile", expiring(15*time.Second, 15*time.Second, true), GuardHeld, "b (release 1.1.0"},
		{"a restriction that ignores a record that never expires", expiring(0, time.Hour, false), GuardHeld, "b (release 1.1.0"},
	})
}

// TestEphemeral judges histories of nodes that come and go.
func TestEphemeral(t *testing.T) {
	const after = 15 * time.Second
	pod := func() *story {
		return installed().add(Event{Record: &Record{Node: "p", Release: r1, M: r1, Controller: true, ExpireAfter: after, Ephemeral: true}}).
			add(Event{Presence: &Presence{Node: "p"}})
	}
	gone := Event{Presence: &Presence{Node: "p", Gone: true}}
	deleted := Event{Record: &Record{Node: "p", Gone: true}}
	checkAll(t, []safeguardTest{
		{"a sidecar leaves", pod().add(deleted).add(gone).together(), "", ""},
		{"a sidecar leaves, and its gate stays open", pod().add(deleted).add(gone).together().later(time.Second).probe("p", r1, true, ""), Registered, "p #1"},
		{"a leader deletes a record that has expired", pod().add(gone).later(after).add(deleted), "", ""},
		{"a leader deletes a record too early", pod().add(gone).later(after - time.Second).add(deleted), Awaited, "neither left nor expired"},
		{"a leader deletes the record of a live node", pod().later(time.Hour).add(deleted), Awaited, "neither left nor expired"},
		{"people remove a record", pod().add(gone).add(deleted).foreign(), "", ""},
		{"a leader deletes a record whose role people have taken", pod().add(Event{Record: &Record{Node: "p", Release: r1, ExpireAfter: after, Ephemeral: true}}).foreign().
			add(gone).later(after).add(deleted), Awaited, "its roles are not"},
		{"a record stays long after it has expired", pod().add(gone).later(after+forgetting+time.Second).record("a", r1), Awaited, "still exists"},
		{"a record stays for a moment after it has expired", pod().add(gone).later(after+time.Second).record("a", r1), "", ""},
		{"a record stays after it has expired, and its leaders change", pod().add(gone).later(after+forgetting/2).dies("a").leads("b").
			later(after+forgetting/2).record("a", r1), "", ""},
		{"a live record stays", pod().later(time.Hour).record("a", r1), "", ""},
	})
}

// drainsIn is a history of an etcd with another election timeout.
func (s *story) drainsIn(d time.Duration) *story {
	s.DrainTime = d
	return s
}

// drainedOnly is a leader that records itself as drained, and does not resign.
func drainedOnly(s *story) *story { return s.drained() }

// unmarked is an upgrade to 1.2.0 that does not name it in the mark.
func unmarked() *story {
	s := restricted((*story).resigns)
	s.Events, s.Readings = s.Events[:len(s.Events)-1], s.Readings[:len(s.Readings)-1]
	return s
}

// first is a first reconciliation.
func first(done bool) *story {
	s := newStory().record("a", r2).leads("a").add(Event{Mark: &Mark{Entries: []Entry{{r2, 1}}}}).
		object("same", "s", r2, 1).object("changed", "new", r2, 1)
	return s.add(Event{Mark: &Mark{FirstDone: done, Entries: []Entry{{r2, 1}}}}).status(protocol.Done, r2, r2, r2, 1, "a")
}

// expiring is a restriction a time after b lost its presence. With wrote, b wrote
// its record meanwhile.
func expiring(after, waited time.Duration, wrote bool) *story {
	record := Event{Record: &Record{Node: "b", Release: r1, M: r1, Controller: true, ExpireAfter: after}}
	s := installed().add(record).add(Event{Presence: &Presence{Node: "b"}}).add(Event{Presence: &Presence{Node: "b", Gone: true}})
	if wrote {
		s = s.later(waited / 2).add(record)
		waited /= 2
	}
	return s.later(waited).resigns("a").record("a", r2).leads("a").status(protocol.Working, r1, r2, r1, 1, "a")
}

func immediately(s *story) *story {
	for i := range s.Bundles {
		s.Bundles[i].PruneImmediately = true
	}
	return s
}

// TestBuilds: several contents may belong to a release; their digests differ.
func TestBuilds(t *testing.T) {
	build := func(s *story, digest string) *story {
		s.Events[len(s.Events)-1].Status.Status.Digest = digest
		return s
	}
	history := func(form string) *story {
		s := installed().resigns("a").record("a", r2).record("b", r2).leads("b")
		s.Bundles = append(s.Bundles, Bundle{Release: r2, Digest: "second", M: r2, A: r2, Forms: map[string]string{"same": "s", "changed": "newer"}})
		s = build(s.status(protocol.Working, r1, r2, r1, 1, "b"), "").mark(Entry{r1, 1}, Entry{r2, 2})
		s = build(s.status(protocol.Working, r1, r2, r2, 2, "b"), "second").object("changed", form, r2, 2).mark(Entry{r2, 2})
		return build(s.status(protocol.Done, r2, r2, r2, 2, "b"), "second")
	}
	if got, _ := Judge(history("newer").History); len(got) > 0 {
		t.Errorf("got %v for the form of the bundle that the status names", got)
	}
	got, _ := Judge(history("new").History)
	for _, want := range []string{Stamped, DoneIsDone} {
		if !slices.ContainsFunc(got, func(v Violation) bool { return v.Invariant == want }) {
			t.Errorf("got %v, want %s for the form of the release's other bundle", got, want)
		}
	}
}

// restored is a history that begins with the keys of an upgraded cluster, and in
// which sidecars must notice the restore within a minute.
func restored() *story { return restoredFrom(upgraded()) }

func restoredFrom(s *story) *story {
	s.Restored, s.Former, s.Probes, s.Settled = s.revision(), []int64{s.epochs["b"]}, nil, s.now+time.Minute
	for i := range s.Events {
		s.Events[i].Foreign = true
	}
	return s
}

func lostNothing(s *story) *story {
	s.Former = nil
	return s
}

// TestRestored: the keys of a restored etcd are not judged, and the later events are.
func TestRestored(t *testing.T) {
	leadsAgain := func(s *story) *story { // b leads again, with a new key
		return s.dies("b").leads("b").status(protocol.Done, r2, r2, r2, 2, "b")
	}
	checkAll(t, []safeguardTest{
		{"nothing happens", restored().later(2*time.Minute).probe("a", r2, true, ""), "", ""},
		{"a new leadership", leadsAgain(restored()).later(2*time.Minute).probe("a", r2, true, ""), "", ""},
		{"the old leadership writes before it must have noticed", restored().status(protocol.Done, r2, r2, r2, 2, "b"), "", ""},
		{"the old leadership goes on", restored().later(2*time.Minute).status(protocol.Done, r2, r2, r2, 2, "b"), OneWriter, "etcd was restored"},
		{"a leadership that had not begun, or lost nothing, goes on", lostNothing(restored()).later(2*time.Minute).status(protocol.Done, r2, r2, r2, 2, "b"), "", ""},
		{"a gate is ready with a record from before", restored().later(2*time.Minute).probe("a", r1, true, ""), Registered, "a #1"},
		{"a gate is ready below the restored objects", restored().record("a", r1).later(2*time.Minute).probe("a", r1, true, ""), Compatible, "a #1"},
		{"an object that was left over is wanted again", restoredFrom(leftOver().status(protocol.Working, r2, r2, r2, 2, "b")).
			dies("b").leads("b").record("a", r3).record("b", r3).later(2*time.Minute).status(protocol.Working, r2, r3, r3, 3, "b").
			mark(Entry{r2, 2}, Entry{r3, 3}).object("dropped", "again", r3, 3).mark(Entry{r3, 3}).status(protocol.Done, r3, r3, r3, 3, "b"), "", ""},
		{"an object of the content is deleted", restored().later(2 * time.Minute).deleted("changed"), NoStaleWrite, "is deleted"},
	})
}
