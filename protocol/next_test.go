package protocol

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// rel parses a release of a test.
func rel(s string) Release {
	r, err := ParseRelease(s)
	if err != nil {
		panic(err)
	}
	return r
}

func ver(s string) Version { return Version{Release: rel(s)} }

// controller returns a well record of an alive controller.
func controller(id, release string) Record {
	return Record{
		ID: NodeID(id), Revision: 5, Alive: true,
		Node: Node{ID: NodeID(id), Roles: Roles{Controller: true}, Version: ver(release)},
	}
}

func (r Record) dead() Record { r.Alive = false; return r }
func (r Record) gone(after, gone time.Duration) Record {
	r.Alive, r.Node.FenceAfter, r.Gone = false, after, gone
	return r
}

func (r Record) alive() Record                  { r.Alive = true; return r }
func (r Record) needs(reconciler string) Record { r.Node.MinReconciler = rel(reconciler); return r }
func (r Record) withdrawn() Record              { r.Presence.Election = Withdrawn; return r }
func (r Record) corrupt(problem string) Record  { r.Problem = problem; return r }
func (r Record) worker() Record                 { r.Node.Roles = Roles{Worker: true}; return r }

// given returns the facts of a leader "me" of release 1.1.0, A 1.0.0, digest
// "d1.1", epoch 7.
func given(s StatusView, records ...Record) Input {
	return Input{
		Local: Local{
			ID: "me", Version: ver("1.1.0"), Digest: "d1.1", Epoch: 7,
			Constraints: Constraints{MinReconciler: rel("1.0.0"), MinApiserver: rel("1.0.0")},
		},
		Fleet:  Fleet{Revision: 100, Records: append([]Record{controller("me", "1.1.0")}, records...)},
		Status: s,
	}
}

func (in Input) mark(m Mark) Input         { in.Mark = m; return in }
func (in Input) progress(p Progress) Input { in.Progress = p; return in }

// present returns a status that stands at revision 50.
func present(s Status) StatusView {
	return StatusView{Kind: StatusPresent, Status: s, Revision: 50}
}

func absent() StatusView { return StatusView{Kind: StatusAbsent} }

func corruptStatus() StatusView {
	return StatusView{Kind: StatusUndecodable, Problem: "garbage", Revision: 50}
}

// done is the status that a leader of release 1.0.0 left.
func done(minimum string) Status {
	return Status{
		State: Done, Version: ver("1.0.0"), MinCompatible: rel(minimum), Leader: "old", Epoch: 3,
		Digest: "d1.0", ContentRelease: rel("1.0.0"), ContentEpoch: 4,
	}
}

// target is the status that "me" wants, as another leader of its release wrote
// it.
func target() Status {
	return Status{
		State: Done, Version: ver("1.1.0"), MinCompatible: rel("1.0.0"), Leader: "old", Epoch: 3,
		Digest: "d1.1", ContentRelease: rel("1.1.0"), ContentEpoch: 4,
	}
}

// working is the target of "me" while it works on it.
func working() Status {
	s := target()
	s.State, s.Version, s.Leader, s.Epoch = Working, ver("1.0.0"), "me", 7
	return s
}

func ours(epoch int64) Content {
	return Content{
		Release: rel("1.1.0"), Digest: "d1.1", Epoch: epoch,
		Constraints: Constraints{MinReconciler: rel("1.0.0"), MinApiserver: rel("1.0.0")},
	}
}

func content(release, a string, epoch int64) Content {
	return Content{Release: rel(release), Digest: "d" + release, Epoch: epoch, Constraints: Constraints{MinApiserver: rel(a)}}
}

func (s Status) by(leader string, epoch int64) Status {
	s.Leader, s.Epoch = NodeID(leader), epoch
	return s
}

func TestNext(t *testing.T) {
	seen := Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{content("1.0.0", "0.9.0", 4)}, HighestEpoch: 4}
	for _, tc := range []struct {
		name string
		in   Input
		want string
	}{
		{"rule 1: a newer controller is alive",
			given(present(target()), controller("new", "1.2.0")),
			"Resign (ResignToNewer) NewerAlive withdraw=false"},
		{"rule 1: before any other rule",
			given(absent(), controller("new", "1.2.0")),
			"Resign (ResignToNewer) NewerAlive withdraw=false"},
		{"4.4: a newer one that is dead does not count",
			given(present(target().by("me", 7)), controller("new", "1.2.0").dead()).progress(Progress{Finished: ours(4)}),
			"Hold (KeepTarget)"},
		{"4.4: nor one that has withdrawn",
			given(present(target().by("me", 7)), controller("new", "1.2.0").withdrawn()).progress(Progress{Finished: ours(4)}),
			"Hold (KeepTarget)"},
		{"4.4: nor one without the controller role",
			given(present(target().by("me", 7)), controller("new", "1.2.0").worker()).progress(Progress{Finished: ours(4)}),
			"Hold (KeepTarget)"},
		{"4.3: nor a corrupt record",
			given(present(target().by("me", 7)), controller("new", "1.2.0").corrupt("garbage")).progress(Progress{Finished: ours(4)}),
			"Hold (KeepTarget)"},
		{"4.7: the own API stays out of reach",
			given(present(target())).progress(Progress{APIGone: true}),
			"Resign (YieldUnreachable) APIUnreachable withdraw=true"},

		{"rule 2: newer content and a newer record, though it is dead",
			given(present(Status{State: Done, Version: ver("1.2.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.2.0"), ContentEpoch: 9, Digest: "d1.2"}),
				controller("new", "1.2.0").dead()),
			"Hold (HoldForNewer) [new NewerRelease]"},
		{"rule 2: newer content half way",
			given(present(Status{State: Working, Version: ver("1.1.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.2.0"), ContentEpoch: 9, Digest: "d1.2"}),
				controller("new", "1.2.0").dead()),
			"Hold (HoldForNewer) [new NewerRelease]"},
		{"rule 2: taken back when nobody of it is registered any more",
			given(present(Status{State: Done, Version: ver("1.2.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.2.0"), ContentEpoch: 9, Digest: "d1.2"})),
			"Write (WaitForNodes) WORKING version=1.1.0 min=1.0.0 content=1.2.0@9 digest=d1.2 epoch=7 drained=0 leader=me if epoch=7 status=50 fleet<=100"},

		{"rule 2: a newer record that is expired is passed over (4.9)",
			given(present(Status{State: Done, Version: ver("1.2.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.2.0"), ContentEpoch: 9, Digest: "d1.2"}),
				controller("new", "1.2.0").gone(time.Minute, time.Minute)),
			"Write (WaitForNodes) WORKING version=1.1.0 min=1.0.0 content=1.2.0@9 digest=d1.2 epoch=7 drained=0 leader=me if epoch=7 status=50 fleet<=100"},
		{"rule 2: not before",
			given(present(Status{State: Done, Version: ver("1.2.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.2.0"), ContentEpoch: 9, Digest: "d1.2"}),
				controller("new", "1.2.0").gone(time.Minute, time.Minute-1)),
			"Hold (HoldForNewer) [new NewerRelease]"},

		{"rule 3: no status: the mark has to be read first",
			given(absent()),
			"Survey (RebuildStatus)"},
		{"rule 3: a new cluster: reconcile, no status before",
			given(absent()).mark(Mark{Kind: MarkAbsent}),
			"Reconcile (FirstReconciliation) 1.1.0@1 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=true"},
		{"rule 3: garbage in a new cluster's status key",
			given(corruptStatus()).mark(Mark{Kind: MarkAbsent}),
			"Reconcile (FirstReconciliation) 1.1.0@1 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=true"},
		{"rule 3: a first reconciliation that was not finished, by the same content",
			given(absent()).mark(Mark{Kind: MarkPresent, Entries: []Content{ours(3)}, HighestEpoch: 3}),
			"Reconcile (FirstReconciliation) 1.1.0@3 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=true"},
		{"rule 3: the same, by other content: its epoch is above",
			given(absent()).mark(Mark{Kind: MarkPresent, Entries: []Content{ours(2), content("1.0.0", "1.0.0", 3)}, HighestEpoch: 3}),
			"Reconcile (FirstReconciliation) 1.1.0@4 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=true"},
		{"rule 3: the target only when all is in place",
			given(absent()).mark(Mark{Kind: MarkAbsent}).progress(Progress{Finished: ours(1)}),
			"Write (FirstReconciliation) DONE version=1.1.0 min=1.0.0 content=1.1.0@1 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=0"},

		{"rule 4: the new leader records itself",
			given(present(target())),
			"Write (KeepTarget) DONE version=1.1.0 min=1.0.0 content=1.1.0@4 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=50"},
		{"rule 4: reconciles once in this epoch",
			given(present(target().by("me", 7))),
			"Reconcile (KeepTarget) 1.1.0@4 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=false"},
		{"rule 4: then holds",
			given(present(target().by("me", 7))).progress(Progress{Finished: ours(4)}),
			"Hold (KeepTarget)"},
		{"rule 4: a pass is due",
			given(present(target().by("me", 7))).progress(Progress{Finished: ours(4), Due: true}),
			"Reconcile (KeepTarget) 1.1.0@4 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=false"},
		{"rule 4: removals wait for an older record, though it is dead",
			given(present(target().by("me", 7)), controller("old", "1.0.0").dead()).progress(Progress{Finished: ours(4), Owed: 2}),
			"Hold (KeepTarget)"},
		{"rule 4: removals fall due",
			given(present(target().by("me", 7)), controller("peer", "1.1.0")).progress(Progress{Finished: ours(4), Owed: 2}),
			"Reconcile (KeepTarget) 1.1.0@4 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=false"},
		{"6.4: an object bears a higher epoch than the status",
			given(present(target().by("me", 7))).mark(Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{ours(4)}, HighestEpoch: 12}),
			"Write (ApplyContent) WORKING version=1.1.0 min=1.0.0 content=1.1.0@13 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=50"},

		{"rule 5: the content changes: its epoch needs the objects' stamps",
			given(present(done("1.0.0")), controller("old", "1.0.0")),
			"Survey (ApplyContent)"},
		{"rule 5: version and minimum stay while it works",
			given(present(done("1.0.0")), controller("old", "1.0.0")).mark(seen),
			"Write (ApplyContent) WORKING version=1.0.0 min=1.0.0 content=1.1.0@5 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=50"},
		{"rule 5: the same content of another leader: only the epoch of the leader changes",
			given(present(working().by("old", 3))),
			"Write (ApplyContent) WORKING version=1.0.0 min=1.0.0 content=1.1.0@4 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=50"},
		{"rule 5: no write where all stands there already",
			given(present(working()), controller("old", "1.0.0")),
			"Reconcile (ApplyContent) 1.1.0@4 digest=d1.1 M=1.0.0 A=1.0.0 removals=false wait=true"},
		{"rule 5: the target when all is in place",
			given(present(working())).progress(Progress{Finished: ours(4)}),
			"Write (ApplyContent) DONE version=1.1.0 min=1.0.0 content=1.1.0@4 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=50"},
		{"rule 5: what was finished for another content does not count",
			given(present(working())).progress(Progress{Finished: ours(3)}),
			"Reconcile (ApplyContent) 1.1.0@4 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=true"},
		{"rule 5: a status written by hand",
			given(present(Status{State: Done, Version: ver("1.0.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.0.0")})).mark(Mark{Kind: MarkAbsent}),
			"Write (ApplyContent) WORKING version=1.0.0 min=1.0.0 content=1.1.0@1 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=50"},

		{"rule 6: waits for the node below A",
			given(present(done("0.9.0")), controller("n", "0.9.0")),
			"Await (WaitForNodes) [n ReleaseTooOld]"},
		{"rule 6: alive or not",
			given(present(done("0.9.0")), controller("n", "0.9.0").dead()),
			"Await (WaitForNodes) [n ReleaseTooOld]"},
		{"rule 6: not for one that the status shuts out already",
			given(present(done("0.9.0")), controller("n", "0.8.0")),
			"Write (WaitForNodes) WORKING version=1.0.0 min=1.0.0 content=1.0.0@4 digest=d1.0 epoch=7 drained=0 leader=me if epoch=7 status=50 fleet<=100"},
		{"rule 6: not for one without the controller role",
			given(present(done("0.9.0")), controller("n", "0.9.0").worker()),
			"Write (WaitForNodes) WORKING version=1.0.0 min=1.0.0 content=1.0.0@4 digest=d1.0 epoch=7 drained=0 leader=me if epoch=7 status=50 fleet<=100"},
		{"rule 6: the other way: a node that needs a newer reconciler",
			given(present(Status{State: Done, Version: ver("1.2.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.2.0"), ContentEpoch: 9, Digest: "d1.2"}),
				controller("n", "1.1.0").needs("1.2.0")),
			"Await (WaitForNodes) [n ReconcilerTooOld]"},
		{"rule 6: a node that is expired is passed over, guarded all the same (4.9)",
			given(present(done("0.9.0")), controller("n", "0.9.0").gone(time.Minute, time.Minute)),
			"Write (WaitForNodes) WORKING version=1.0.0 min=1.0.0 content=1.0.0@4 digest=d1.0 epoch=7 drained=0 leader=me if epoch=7 status=50 fleet<=100"},
		{"rule 6: not before",
			given(present(done("0.9.0")), controller("n", "0.9.0").gone(time.Minute, time.Minute-1)),
			"Await (WaitForNodes) [n ReleaseTooOld]"},
		{"rule 6: nor one whose record promises nothing, however long it has been gone",
			given(present(done("0.9.0")), controller("n", "0.9.0").gone(0, 1000*time.Hour)),
			"Await (WaitForNodes) [n ReleaseTooOld]"},
		{"rule 6: nor one that is alive",
			given(present(done("0.9.0")), controller("n", "0.9.0").gone(time.Minute, time.Hour).alive()),
			"Await (WaitForNodes) [n ReleaseTooOld]"},
		{"rule 6: nor for another that is not",
			given(present(done("0.9.0")), controller("n", "0.9.0").gone(time.Minute, time.Minute), controller("o", "0.9.0").dead()),
			"Await (WaitForNodes) [o ReleaseTooOld]"},
		{"rule 6: a corrupt record that is expired blocks: it promises nothing",
			given(present(done("0.9.0")), controller("n", "1.1.0").gone(time.Minute, time.Hour).corrupt("garbage")),
			"Await (WaitForNodes) [n RecordCorrupt]"},
		{"rule 4: removals wait for an older record that is expired",
			given(present(target().by("me", 7)), controller("old", "1.0.0").gone(time.Minute, time.Hour)).progress(Progress{Finished: ours(4), Owed: 2}),
			"Hold (KeepTarget)"},
		{"rule 6: a corrupt record blocks",
			given(present(done("0.9.0")), controller("n", "1.1.0").corrupt("garbage")),
			"Await (WaitForNodes) [n RecordCorrupt]"},

		{"rule 7: a lost status is rebuilt from the mark",
			given(absent()).mark(Mark{Kind: MarkPresent, FirstDone: true, HighestEpoch: 6,
				Entries: []Content{content("1.0.0", "0.9.0", 4), content("1.2.0", "1.1.0", 6)}}),
			"Write (RebuildStatus) WORKING version=1.0.0 min=1.1.0 content=1.2.0@6 digest=d1.2.0 epoch=7 drained=0 leader=me if epoch=7 status=0"},
		{"rule 7: a corrupt one too, over what stands there",
			given(corruptStatus()).mark(seen),
			"Write (RebuildStatus) WORKING version=1.0.0 min=0.9.0 content=1.0.0@4 digest=d1.0.0 epoch=7 drained=0 leader=me if epoch=7 status=50"},

		{"4.4: the own role was taken away",
			Input{Local: Local{ID: "me"}, Fleet: Fleet{Records: []Record{controller("me", "0.0.0").worker()}}, Status: absent()},
			"Resign (ResignWithoutRole) NotController withdraw=false"},
		{"a status that was not read",
			given(StatusView{}),
			"Hold (AwaitStatus)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Next(tc.in).String(); got != tc.want {
				t.Errorf("Next:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// Who waits is told for how long, and who passes a node over says so.
func TestNext_tellsOfDeadNodes(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   Input
		want string
	}{
		{"a node that will be passed over", given(present(done("0.9.0")), controller("n", "0.9.0").gone(5*time.Minute, time.Minute)),
			"passed over once it has been gone for 5m0s"},
		{"one of a newer release", given(present(Status{State: Done, Version: ver("1.2.0"), ContentRelease: rel("1.2.0")}),
			controller("n", "1.2.0").gone(5*time.Minute, time.Minute)), "passed over once it has been gone for 5m0s"},
		{"one that was", given(present(done("0.9.0")), controller("n", "0.9.0").gone(5*time.Minute, time.Hour)),
			"passed over, for they have been gone for as long as they said: n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step := Next(tc.in)
			text := step.Message
			for _, b := range step.Blockers {
				text += b.Message
			}
			if !strings.Contains(text, tc.want) {
				t.Errorf("got %q, want %q in it", text, tc.want)
			}
		})
	}
	if step := Next(given(present(done("0.9.0")), controller("n", "1.1.0").gone(time.Minute, time.Hour))); strings.Contains(step.Message, "passed over") {
		t.Errorf("got %q of a node that fits", step.Message)
	}
}

// TestNext_safety walks all statuses and records of a small domain and checks
// each decision against the invariants, in words of its own.
func TestNext_safety(t *testing.T) {
	releases := []Release{rel("1.0.0"), rel("1.1.0"), rel("1.2.0")}
	checked := 0
	for _, s := range statuses(releases) {
		for _, l := range locals(releases) {
			for _, other := range others(releases) {
				in := Input{
					Local:  l,
					Fleet:  Fleet{Revision: 9, Records: []Record{{ID: "me", Node: Node{ID: "me", Roles: Roles{Controller: true}, Version: l.Version}}, other}},
					Status: present(s),
					Mark:   Mark{Kind: MarkAbsent},
				}
				checkStep(t, in, Next(in))
				checked++
			}
		}
	}
	t.Logf("%d decisions", checked)
}

func statuses(releases []Release) []Status {
	var out []Status
	for _, state := range []State{Done, Working} {
		for _, v := range releases {
			for _, m := range releases {
				for _, c := range releases {
					out = append(out, Status{State: state, Version: Version{Release: v}, MinCompatible: m, ContentRelease: c, ContentEpoch: 1, Digest: "d" + c.String()})
				}
			}
		}
	}
	return out
}

func locals(releases []Release) []Local {
	var out []Local
	for _, l := range releases {
		for _, a := range releases {
			if !l.Less(a) {
				out = append(out, Local{ID: "me", Version: Version{Release: l}, Constraints: Constraints{MinApiserver: a}, Digest: "d" + l.String(), Epoch: 7})
			}
		}
	}
	return out
}

func others(releases []Release) []Record {
	var out []Record
	for _, r := range releases {
		for _, m := range releases {
			for _, alive := range []bool{false, true} {
				rec := controller("you", r.String()).needs(m.String())
				rec.Alive = alive
				out = append(out, rec)
			}
		}
	}
	return out
}

// admittedByHand is 4.1, written a second time.
func admittedByHand(s Status, n Node) bool {
	return s.MinCompatible.Compare(n.Version.Release) <= 0 && n.MinReconciler.Compare(s.Version.Release) <= 0
}

func checkStep(t *testing.T, in Input, step Step) {
	t.Helper()
	now, other := in.Status.Status, in.Fleet.Records[1]
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s\nstatus %s\nother %+v\nlocal %+v\nstep %s", fmt.Sprintf(format, args...), now, other, in.Local, step)
	}
	switch step.Kind {
	case StepWrite:
		// Steady: who is admitted stays so, or the guard proves that nobody is
		// registered who would not.
		if admittedByHand(now, other.Node) && !admittedByHand(step.Status, other.Node) {
			fail("Steady: the write shuts out a registered node")
		}
		restricts := step.Status.Version.Release.Less(now.Version.Release) || now.MinCompatible.Less(step.Status.MinCompatible)
		if restricts != (step.Guard.FleetRevision == in.Fleet.Revision) {
			fail("GuardHeld: restricts=%t, fleet guard %d", restricts, step.Guard.FleetRevision)
		}
		if step.Guard.Epoch != in.Local.Epoch || step.Guard.StatusRevision != in.Status.Revision || step.Status.Epoch != in.Local.Epoch {
			fail("OneWriter: guard %+v", step.Guard)
		}
		if step.Status.State == Done && step.Status != Target(now, in.Local) {
			fail("DONE with something else than the target")
		}
	case StepReconcile:
		// Covers: the status must admit nobody who does not fit the own content.
		l := in.Local
		if l.Version.Release.Less(now.Version.Release) || now.MinCompatible.Less(l.Constraints.MinApiserver) {
			fail("Covers: content would be present that the status does not cover")
		}
	case StepResign:
		if !other.Alive || !in.Local.Version.Release.Less(other.Node.Version.Release) {
			fail("resigns for nobody")
		}
	case StepAwait, StepHold:
		if len(step.Blockers) == 0 && step.Rule != KeepTarget {
			fail("Progress: waits without a named blocker")
		}
	case StepSurvey, StepUnset:
		fail("unexpected")
	}
}

func TestBlockers_message(t *testing.T) {
	now, next := done("0.9.0"), done("1.0.0")
	got := Blockers(now, next, Fleet{Records: []Record{controller("n", "0.9.0").dead()}})
	if len(got) != 1 || !strings.Contains(got[0].Message, "sidecar node remove n") {
		t.Errorf("a dead blocker's message does not say what to do: %+v", got)
	}
}

// A pass that is under way must not be turned into another step by a turn that
// learns nothing new: the shell would stop it, for ever.
func TestNext_isStableWhileItWorks(t *testing.T) {
	for name, in := range map[string]Input{
		"first reconciliation":       given(absent()).mark(Mark{Kind: MarkAbsent}),
		"an unfinished first one":    given(absent()).mark(Mark{Kind: MarkPresent, Entries: []Content{content("1.0.0", "1.0.0", 3)}, HighestEpoch: 3}),
		"garbage for a status":       given(corruptStatus()).mark(Mark{Kind: MarkAbsent}),
		"a known status, known mark": given(present(working())).mark(Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{content("1.0.0", "1.0.0", 3)}, HighestEpoch: 4}),
		"a known status alone":       given(present(working())),
	} {
		t.Run(name, func(t *testing.T) {
			step := Next(in)
			if step.Kind != StepReconcile {
				t.Fatalf("got %s", step)
			}
			in.Mark = in.Mark.With(step.Work.Content)
			if again := Next(in); again.String() != step.String() {
				t.Errorf("first %s\nthen %s", step, again)
			}
		})
	}
}

// A release that raises both constraints deadlocks a rolling upgrade: the step
// has to say so, for nothing else will.
func TestNext_cannotRoll(t *testing.T) {
	in := given(present(done("0.9.0")), controller("n", "0.9.0"))
	if got := Next(in).Message; strings.Contains(got, "cannot be rolled") {
		t.Errorf("M is not above the reconciler: %s", got)
	}
	in.Local.Constraints = Constraints{MinReconciler: rel("1.1.0"), MinApiserver: rel("1.1.0")}
	if got := Next(in).Message; !strings.Contains(got, "minReconcilerRelease 1.1.0 and minApiserverRelease 1.1.0 are both above 1.0.0") {
		t.Errorf("got %s", got)
	}
}

// A change of content waits for what may land, the same content does not, and
// each says what a mark that is made anew has to name (6.4).
func TestNextWaits(t *testing.T) {
	in := Input{Local: Local{ID: "a", Version: Version{Release: rel("1.2.0")}, Constraints: Constraints{MinApiserver: rel("1.1.0")}, Digest: "d", Epoch: 7}}
	in.Status = StatusView{Kind: StatusPresent, Revision: 3, Status: Status{
		State: Working, Version: Version{Release: rel("1.1.0")}, MinCompatible: rel("1.1.0"), Leader: "a", Epoch: 7,
		Digest: "d", ContentRelease: rel("1.2.0"), ContentEpoch: 4,
	}}
	in.Mark = Mark{Kind: MarkPresent, FirstDone: true, HighestEpoch: 4}
	step := Next(in)
	beside := Content{Release: rel("1.1.0"), Constraints: Constraints{MinApiserver: rel("1.1.0")}, Epoch: 4}
	if step.Kind != StepReconcile || !step.Work.Wait || step.Work.Beside != beside {
		t.Errorf("got %s beside %s, want a pass that waits, beside %s", step, step.Work.Beside, beside)
	}
	in.Status.Status = Target(in.Status.Status, in.Local)
	if step := Next(in); step.Kind != StepReconcile || step.Work.Wait {
		t.Errorf("got %s, want a pass that does not wait: the content is there", step)
	}
	in.Status, in.Mark = StatusView{Kind: StatusAbsent}, Mark{Kind: MarkAbsent}
	if step := Next(in); step.Kind != StepReconcile || !step.Work.Wait || step.Work.Beside != (Content{}) {
		t.Errorf("got %s beside %s, want a first pass that waits, beside nothing", step, step.Work.Beside)
	}
}
