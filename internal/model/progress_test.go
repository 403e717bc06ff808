package model

import "testing"

// TestProgress2Nodes2Releases1Fault checks that every run comes to rest once
// faults stop and people do nothing, and rests well.
func TestProgress2Nodes2Releases1Fault(t *testing.T) {
	skipRaced(t)
	var cfgs []*Config
	for _, p := range constraints(2) {
		for _, start := range []start{settled, newCluster} {
			cfgs = append(cfgs, &Config{
				Nodes: 2, Releases: 2, Builds: 1, M: p[0], A: p[1], Faults: 1, Changes: 2, Start: start,
				Objects: []shape{sameForm, changedForm}, Coarse: true,
			})
		}
	}
	sum := each(t, cfgs, CheckProgress)
	t.Logf("%s\n%s", sum, &sum.counts)
	if sum.counts.ended["complete"] == 0 || sum.counts.ended["with blockers named, WaitForNodes"] == 0 {
		t.Error("the search never saw an upgrade complete, or never one that is held")
	}
}

// TestProgressOfEveryWayThrough3Releases has people move nodes as they like, also
// against all advice: upgrades that are given up half way, taken back, that skip
// a release, or mix three. Each run rests with the upgrade complete, or with the
// nodes named that hold it.
func TestProgressOfEveryWayThrough3Releases(t *testing.T) {
	skipRaced(t)
	if !*full {
		t.Skip("takes minutes: -model.full")
	}
	var cfgs []*Config
	for _, p := range constraints(3) {
		for _, faults := range []int{0, 1} { // one node less, where one fails
			cfgs = append(cfgs, &Config{
				Nodes: 3 - faults, Releases: 3, Builds: 1, M: p[0], A: p[1], Faults: faults, Changes: 3 - faults, Start: settled,
				Objects: []shape{changedForm}, Coarse: true,
			})
		}
	}
	sum := each(t, cfgs, CheckProgress)
	t.Logf("%s\n%s", sum, &sum.counts)
	for _, want := range []string{"complete", "with blockers named, HoldForNewer", "with blockers named, WaitForNodes"} {
		if sum.counts.ended[want] == 0 {
			t.Errorf("no run ended %s", want)
		}
	}
}

// TestProgressOfNodesThatExpire checks the same where records say when they may
// be passed over. Then nobody who is gone holds an upgrade for ever.
func TestProgressOfNodesThatExpire(t *testing.T) {
	skipRaced(t)
	var cfgs []*Config
	for _, p := range constraints(2) {
		cfgs = append(cfgs, &Config{
			Nodes: 2, Releases: 2, Builds: 1, M: p[0], A: p[1], Faults: 1, Changes: 2, Start: settled,
			Objects: []shape{sameForm, changedForm}, Coarse: true, Expire: true,
		})
	}
	sum := each(t, cfgs, CheckProgress)
	t.Logf("%s\n%s", sum, &sum.counts)
	if n := sum.counts.ended["with blockers named, HoldForNewer"]; n != 0 {
		t.Errorf("%d runs rest while a node of a newer release is named, which must be gone", n)
	}
}

// TestProgressFindsStuckState has the key of a dead leader stay for ever, as an
// orphaned candidate key does.
func TestProgressFindsStuckState(t *testing.T) {
	cfg := two(keysExpire, 1, 1)
	r := CheckProgress(&cfg)
	if r.Violation == nil || r.Violation.Invariant != "Progress" {
		t.Fatalf("got %v in %d states, want a state in which nobody leads", r.Violation, r.States)
	}
	wantGolden(t, "keys-expire.txt", "# The key of a leader that is gone must not stay: nobody else could ever lead.\n\n"+r.Violation.String())
}
