package protocol

import "testing"

func TestNext_appliesContent(t *testing.T) {
	seen := Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{contentOf("1.0.0", "0.9.0", 4)}, HighestEpoch: 4}
	runNext(t, []nextCase{
		{"an object has a higher content epoch than the status",
			given(presentStatus(targetStatus().by("me", 7))).mark(Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{ownContent(4)}, HighestEpoch: 12}),
			"Write (ApplyContent) WORKING version=1.1.0 min=1.0.0 content=1.1.0@13 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=50"},
		{"the content changes: its epoch depends on the stamps of the objects",
			given(presentStatus(doneStatus("1.0.0")), controller("old", "1.0.0")),
			"Survey (ApplyContent)"},
		{"version and minimum stay while it works",
			given(presentStatus(doneStatus("1.0.0")), controller("old", "1.0.0")).mark(seen),
			"Write (ApplyContent) WORKING version=1.0.0 min=1.0.0 content=1.1.0@5 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=50"},
		{"the same content of another leader: only the leader and its epoch change",
			given(presentStatus(workingStatus().by("old", 3))),
			"Write (ApplyContent) WORKING version=1.0.0 min=1.0.0 content=1.1.0@4 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=50"},
		{"no write where the status has all of it already",
			given(presentStatus(workingStatus()), controller("old", "1.0.0")),
			"Reconcile (ApplyContent) 1.1.0@4 digest=d1.1 M=1.0.0 A=1.0.0 removals=false wait=true"},
		{"writes the target when all objects are in place",
			given(presentStatus(workingStatus())).progress(Progress{Finished: ownContent(4)}),
			"Write (ApplyContent) DONE version=1.1.0 min=1.0.0 content=1.1.0@4 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=50"},
		{"a pass for another content does not count",
			given(presentStatus(workingStatus())).progress(Progress{Finished: ownContent(3)}),
			"Reconcile (ApplyContent) 1.1.0@4 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=true"},
		{"a status written by hand",
			given(presentStatus(Status{State: Done, Version: ver("1.0.0"), MinCompatible: rel("1.0.0"), ContentRelease: rel("1.0.0")})).mark(Mark{Kind: MarkAbsent}),
			"Write (ApplyContent) WORKING version=1.0.0 min=1.0.0 content=1.1.0@1 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=50"},
	})
}

// TestNext_isStableWhileItWorks: a pass that runs must not become another step
// when no fact has changed. The leader would stop it, again and again.
func TestNext_isStableWhileItWorks(t *testing.T) {
	for name, in := range map[string]Input{
		"first reconciliation":       given(absentStatus()).mark(Mark{Kind: MarkAbsent}),
		"an unfinished first one":    given(absentStatus()).mark(Mark{Kind: MarkPresent, Entries: []Content{contentOf("1.0.0", "1.0.0", 3)}, HighestEpoch: 3}),
		"garbage for a status":       given(corruptStatus()).mark(Mark{Kind: MarkAbsent}),
		"a known status, known mark": given(presentStatus(workingStatus())).mark(Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{contentOf("1.0.0", "1.0.0", 3)}, HighestEpoch: 4}),
		"a known status alone":       given(presentStatus(workingStatus())),
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

// TestNext_waitsForStaleWrites: a change of content waits for what may land, the
// same content does not. Each names the entry of a mark that has to be written
// again.
func TestNext_waitsForStaleWrites(t *testing.T) {
	in := Input{Local: Local{ID: "a", Version: Version{Release: rel("1.2.0")}, Constraints: Constraints{MinAPIServer: rel("1.1.0")}, Digest: "d", Epoch: 7}}
	in.Status = StatusView{Kind: StatusPresent, Revision: 3, Status: Status{
		State: Working, Version: Version{Release: rel("1.1.0")}, MinCompatible: rel("1.1.0"), Leader: "a", Epoch: 7,
		Digest: "d", ContentRelease: rel("1.2.0"), ContentEpoch: 4,
	}}
	in.Mark = Mark{Kind: MarkPresent, FirstDone: true, HighestEpoch: 4}
	step := Next(in)
	fallback := Content{Release: rel("1.1.0"), Constraints: Constraints{MinAPIServer: rel("1.1.0")}, Epoch: 4}
	if step.Kind != StepReconcile || !step.Work.Wait || step.Work.FallbackEntry != fallback {
		t.Errorf("got %s with %s, want a pass that waits, with %s", step, step.Work.FallbackEntry, fallback)
	}
	in.Status.Status = target(in.Status.Status, in.Local)
	if step := Next(in); step.Kind != StepReconcile || step.Work.Wait {
		t.Errorf("got %s, want a pass that does not wait: the content is there", step)
	}
	in.Status, in.Mark = StatusView{Kind: StatusAbsent}, Mark{Kind: MarkAbsent}
	if step := Next(in); step.Kind != StepReconcile || !step.Work.Wait || step.Work.FallbackEntry != (Content{}) {
		t.Errorf("got %s with %s, want a first pass that waits, without an entry", step, step.Work.FallbackEntry)
	}
}
