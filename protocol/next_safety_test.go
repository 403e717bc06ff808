package protocol

import (
	"fmt"
	"testing"
)

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
					Fleet:  Fleet{Revision: 9, Records: []*Record{{ID: "me", Node: Node{ID: "me", Roles: Roles{Controller: true}, Version: l.Version}}, other}},
					Status: presentStatus(s),
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
				out = append(out, Local{ID: "me", Version: Version{Release: l}, Constraints: Constraints{MinAPIServer: a}, Digest: "d" + l.String(), Epoch: 7})
			}
		}
	}
	return out
}

func others(releases []Release) []*Record {
	var out []*Record
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

// admittedByHand is Admits, written a second time.
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
		// Steady: a node that is admitted stays admitted, or the guard proves that no
		// such node is registered.
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
		if step.Status.State == Done && step.Status != target(now, in.Local) {
			fail("DONE with something else than the target")
		}
	case StepReconcile:
		// Covers: the status must admit only nodes that fit the leader's content.
		l := in.Local
		if l.Version.Release.Less(now.Version.Release) || now.MinCompatible.Less(l.Constraints.MinAPIServer) {
			fail("Covers: content would be present that the status does not cover")
		}
	case StepResign:
		if !other.Alive || !in.Local.Version.Release.Less(other.Node.Version.Release) {
			fail("resigns without a newer node")
		}
	case StepAwait, StepHold:
		if len(step.Blockers) == 0 && step.Rule != KeepTarget {
			fail("Progress: waits without a named blocker")
		}
	case StepSurvey, StepUnset:
		fail("unexpected")
	}
}
