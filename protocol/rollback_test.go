package protocol

import (
	"strings"
	"testing"
	"time"
)

// rolledBack is a fleet of two nodes of 1.1.0 in a rollback to 1.0.0, and one that has gone
// back and leads.
func rolledBack() Input {
	in := given(presentStatus(targetStatus()), controller("n", "1.1.0"), controller("o", "1.1.0")).rollingBack("1.0.0")
	in.Local.Version, in.Local.Digest = ver("1.0.0"), "d1.0"
	in.Local.Constraints = Constraints{}
	in.Fleet.Records[0].Node.Version = ver("1.0.0")
	return in
}

func TestOnlyTheReleaseOfARollbackLeads(t *testing.T) {
	in := rolledBack()
	if got := Eligible(in.Fleet, in.Local); !got.Eligible {
		t.Errorf("got %+v, want that newer nodes do not matter", got)
	}
	in.Local.Version = ver("1.1.0")
	if got := Next(in); got.Kind != StepResign || got.Rule != ResignForRollback || got.Reason != RollingBack {
		t.Errorf("got %s", got)
	}
}

func TestRollbackDoesNotWaitForNewerNodes(t *testing.T) {
	in := rolledBack()
	if got := Next(in); got.Kind != StepWrite || got.Rule != WaitForNodes {
		t.Errorf("got %s, want the restriction", got)
	}
	in.Fleet.Records[1].Node.MinReconciler = rel("1.1.0")
	if got := Next(in); got.Kind != StepAwait || len(got.Blockers) != 1 {
		t.Errorf("got %s, want to wait for the node that does not fit", got)
	}
}

func TestRemovalsWaitForNodesOfEveryOtherRelease(t *testing.T) {
	in := rolledBack()
	if removalsDue(in.Fleet, in.Local.Version.Release) {
		t.Error("removals are due while newer nodes are registered")
	}
	in.Fleet.Records = in.Fleet.Records[:1]
	if !removalsDue(in.Fleet, in.Local.Version.Release) {
		t.Error("removals are not due")
	}
}

func TestRollbackEnds(t *testing.T) {
	in := rolledBack()
	if RollbackDone(in.Status, in.Fleet) {
		t.Error("done at the newer release")
	}
	back := presentStatus(doneStatus("1.0.0"))
	if RollbackDone(back, in.Fleet) {
		t.Error("done while newer nodes are registered")
	}
	in.Fleet.Records = in.Fleet.Records[:1]
	if !RollbackDone(back, in.Fleet) {
		t.Error("not done")
	}
	until := time.Unix(1000, 0)
	in.Fleet.Rollback.Until = until
	if in.Fleet.Rollback.Over(until.Add(-time.Second)) || !in.Fleet.Rollback.Over(until) {
		t.Error("its time is over when its end has come, and not before")
	}
}

// wantText compares a text with a part of it; an empty part wants no text.
func wantText(t *testing.T, got, want string) {
	t.Helper()
	if (want == "") != (got == "") || !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRollbackStops(t *testing.T) {
	f := rolledBack().Fleet // n is of 1.0.0
	wantText(t, rollbackStops(f, rel("1.0.0")), "")
	wantText(t, rollbackStops(f, rel("0.9.0")), "until a node of release 0.9.0 starts, no node leads and nothing is repaired")
	f.Records[0].Node.Roles.Controller = false
	wantText(t, rollbackStops(f, rel("1.0.0")), "no node leads")
}

func TestRollbackRefusal(t *testing.T) {
	in := rolledBack()
	in.Fleet.Rollback = Rollback{}
	unfit, shut := in.Fleet, in.Status
	shut.Status.MinCompatible = rel("1.1.0")
	for _, tc := range []struct {
		name, to string
		v        StatusView
		raise    int // how many newer nodes need the newer objects
		refusal  string
		risk     string
	}{
		{"fits", "1.0.0", in.Status, 0, "", ""},
		{"one blocks", "1.0.0", in.Status, 1, "", ""},
		{"all block, and the status admits their old release", "1.0.0", in.Status, 2, "", ""},
		{"all block, and the status shuts their old release out", "1.0.0", shut, 2, "", "--force"},
		{"one blocks, and the status shuts its old release out", "1.0.0", shut, 1, "", ""},
		{"nothing goes back", "1.1.0", in.Status, 0, "nothing goes back", ""},
		{"no status", "1.0.0", absentStatus(), 0, "no reconciler status", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for i := range unfit.Records[1:] {
				m := rel("1.0.0")
				if i < tc.raise {
					m = rel("1.1.0")
				}
				unfit.Records[i+1].Node.MinReconciler = m
			}
			wantText(t, rollbackRefusal(tc.v, unfit, rel(tc.to)), tc.refusal)
			wantText(t, rollbackRisk(tc.v, unfit, rel(tc.to)), tc.risk)
		})
	}
	unfit.Rollback = Rollback{To: rel("0.9.0"), Revision: 3}
	if got := JudgeRollback(in.Status, unfit, rel("1.0.0")).Refusal; !strings.Contains(got, "rollback end") {
		t.Errorf("got %q", got)
	}
}

// A node that goes back keeps its gate closed only if the status shuts its release out.
func TestRollbackNotes(t *testing.T) {
	in := rolledBack()
	for _, tc := range []struct {
		minimum string
		unfit   int
		closes  string
	}{
		{"1.0.0", 1, ""},
		{"1.0.0", 2, ""},
		{"1.1.0", 1, "its gate is closed from its restart until they are there"},
		{"1.1.0", 2, "do not use sidecar turn"},
	} {
		in.Status.Status.MinCompatible = rel(tc.minimum)
		for i := range in.Fleet.Records[1:] {
			in.Fleet.Records[i+1].Node.MinReconciler = rel(map[bool]string{true: "1.1.0", false: "1.0.0"}[i < tc.unfit])
		}
		got := strings.Join(rollbackNotes(in.Status, in.Fleet, rel("1.0.0")), "; ")
		if got == "" || !strings.Contains(got, tc.closes) || tc.closes == "" && (strings.Contains(got, "closed") || strings.Contains(got, "closes")) {
			t.Errorf("minimum %s, %d do not fit: got %q, want %q", tc.minimum, tc.unfit, got, tc.closes)
		}
	}
}

// A node that goes back in a turn may wait for nodes that get no turn until it serves.
func TestTurnRisk(t *testing.T) {
	in := rolledBack()
	shut := in.Status
	shut.Status.MinCompatible = rel("1.1.0")
	n, o := in.Fleet.Records[1], in.Fleet.Records[2]
	wantText(t, TurnRisk(shut, in.Fleet, n.ID), "")
	o.Node.MinReconciler = rel("1.1.0")
	wantText(t, TurnRisk(shut, in.Fleet, n.ID), `node "n" serves only when o went back, too`)
	wantText(t, TurnRisk(shut, in.Fleet, o.ID), "") // it leads once it has gone back
	wantText(t, TurnRisk(in.Status, in.Fleet, n.ID), "")
	wantText(t, TurnRisk(shut, in.Fleet, in.Fleet.Records[0].ID), "")
	wantText(t, TurnRisk(shut, in.Fleet, "nowhere"), "")
	in.Fleet.Rollback = Rollback{}
	wantText(t, TurnRisk(shut, in.Fleet, n.ID), "")
	n.Presence.Reason = ReleaseTooOld
	wantText(t, TurnRisk(shut, in.Fleet, n.ID), `node "n" does not serve now (ReleaseTooOld)`)
}
