package model

import "testing"

// TestProgress2Nodes2Releases1Fault checks that every run ends, and ends well,
// once faults stop and administrators do nothing.
func TestProgress2Nodes2Releases1Fault(t *testing.T) {
	skipRaced(t)
	var cfgs []*Config
	for _, p := range constraints(2) {
		for _, from := range []start{settled, newCluster} {
			cfgs = append(cfgs, &Config{
				Nodes: 2, Releases: 2, Builds: 1, M: p[0], A: p[1], Faults: 1, Changes: 2, Start: from,
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

// TestProgressOfEveryWayThrough3Releases moves nodes in every order, also against
// all advice: upgrades that are given up half way, are rolled back, skip a
// release, or mix three. Each run ends with the upgrade complete, or with the
// names of the nodes that hold it up.
func TestProgressOfEveryWayThrough3Releases(t *testing.T) {
	skipRaced(t)
	if !*full {
		t.Skip("part of make model: -model.full")
	}
	var cfgs []*Config
	for _, p := range constraints(3) {
		for _, faults := range []int{0, 1} { // one node less, if one may fail
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

// TestProgressOfNodesThatExpire checks the same with records that expire. Then no
// dead node holds up an upgrade forever.
func TestProgressOfNodesThatExpire(t *testing.T) {
	skipRaced(t)
	var cfgs []*Config
	for _, p := range constraints(2) {
		for changes, ephemeral := range map[int]bool{2: false, 1: true} {
			cfgs = append(cfgs, &Config{
				Nodes: 2, Releases: 2, Builds: 1, M: p[0], A: p[1], Faults: 1, Changes: changes, Start: settled,
				Objects: []shape{sameForm, changedForm}, Coarse: true, Expire: true, Ephemeral: ephemeral,
			})
		}
	}
	sum := each(t, cfgs, CheckProgress)
	t.Logf("%s\n%s", sum, &sum.counts)
	if n := sum.counts.ended["with blockers named, HoldForNewer"]; n != 0 {
		t.Errorf("%d runs end with a dead node of a newer release as blocker", n)
	}
}

// TestProgressOfTheNewMoves checks the same with strangers, with repairs between two
// passes, with a kube-apiserver that never answers again, with cordons, and with rollbacks.
func TestProgressOfTheNewMoves(t *testing.T) {
	skipRaced(t)
	var cfgs []*Config
	for _, p := range constraints(2) {
		cfg := Config{
			Nodes: 2, Releases: 2, Builds: 1, M: p[0], A: p[1], Faults: 1, Changes: 2, Start: settled,
			Objects: []shape{recreatedForm, droppedForm}, Coarse: true,
		}
		kept, withdrawn, cordoned := cfg.kept().strangers(), cfg.withdrawing(), cfg.cordoning()
		rolled := cfg.rollingBack().fromUpgraded().deathsOnly().bothWays().changes(3).objects(addedForm, droppedForm)
		failing, left := cfg.failing().objects(sameForm), cfg.leavingKeys().objects(sameForm)
		cfgs = append(cfgs, &kept, &withdrawn, &cordoned, &rolled, &failing, &left)
	}
	sum := each(t, cfgs, CheckProgress)
	t.Logf("%s\n%s", sum, &sum.counts)
	wantMoves(moveRepair, moveRepairMark, moveForge, moveYield, moveCordon, moveLearnCordon, moveBeginRollback, moveEndRollback, moveBreakServices, moveTakePlace,
		moveLeaveKey, moveGiveUpLease)(t, sum.counts)
	wantWhole(t, sum.counts)
}

// TestProgressOfEveryWayBack rolls whole fleets back, while leaders die. Wherever that is given up, begun again or
// forgotten, it goes on: forward or back, until the status is DONE.
func TestProgressOfEveryWayBack(t *testing.T) {
	skipRaced(t)
	if !*full {
		t.Skip("part of make model: -model.full")
	}
	var cfgs []*Config
	for _, p := range constraints(2) {
		cfg := two(0, p[0][1], p[1][1]).rollingBack().fromUpgraded().deathsOnly().bothWays().objects(addedForm, changedForm)
		whole := cfg.faults(0).changes(4)
		whole.Nodes = 3
		restored := cfg.restored(restoreAll).changes(2)
		cfgs = append(cfgs, &whole, &restored)
	}
	sum := each(t, cfgs, CheckProgress)
	t.Logf("%s\n%s", sum, &sum.counts)
	if sum.counts.ended[wholeRollback] == 0 || sum.counts.moves[moveRestore] == 0 {
		t.Error("no whole fleet ever went back, or etcd was never restored")
	}
}

// TestProgressNeedsWithdrawal turns off the safeguards that let another node lead.
func TestProgressNeedsWithdrawal(t *testing.T) {
	skipRaced(t)
	halfway := two(0, 1, 1).faults(0).changes(2).fromUpgraded()
	halfway.Nodes = 3
	for _, m := range []mutation{
		{"yields", "A leader whose kube-apiserver does not answer finishes nothing. If it goes on leading, no other node does.", two(yields, 1, 1).withdrawing(), 0},
		{
			"cordoned-makes-way", "A node that was taken out of service may not lead: if older nodes made way for it, none would lead.",
			two(cordonedMakesWay, 1, 1).cordoning(), 0,
		},
		{
			"rollback-resigns", "In a rollback a newer node may not lead: it would bring its own objects again.",
			two(0, 1, 1).without(rollbackResigns), 0,
		},
		{
			"rollback-leads", "In a rollback a newer node may not lead: if nodes of its release made way for it, none would lead.",
			two(0, 1, 1).without(rollbackLeads), 0,
		},
		{
			"rollback-time", "A rollback that people forget to end keeps all nodes of other releases from leading: it has to end by its time.",
			two(0, 1, 1).without(timeEnds), 0,
		},
		{
			"half-replaced", "A rollback that is given up leaves content that no node will finish: a leader that waited for that would wait for ever.",
			halfway.without(halfReplaced).bothWays(), 0,
		},
		{
			"rollback-applies", "In a rollback the leader does not wait until all newer nodes have gone: no leader would apply the old objects while they serve.",
			two(0, 1, 2).without(rollbackApplies), 0,
		},
		{
			"unready-makes-way", "A node whose services do not become ready stays alive: if older nodes made way for it, none would lead.",
			two(unreadyMakesWay, 1, 1).failing(), 0,
		},
		{
			"withdrawn-makes-way", "A node that has withdrawn stays alive: if older nodes made way for it, none would lead.",
			two(withdrawnMakesWay, 1, 1).withdrawing(), 0,
		},
	} {
		r := CheckProgress(&m.cfg)
		if r.Violation == nil || r.Violation.Invariant != "Progress" {
			t.Fatalf("%s: got %v in %d states, want a run that ends before the upgrade is complete", m.name, r.Violation, r.States)
		}
		wantGolden(t, m.name+".txt", "# "+m.why+"\n\n"+r.Violation.String())
	}
}

// TestProgressFindsStuckState keeps the key of a dead leader forever, as an
// orphaned candidate key would be.
func TestProgressFindsStuckState(t *testing.T) {
	cfg := two(keysExpire, 1, 1)
	r := CheckProgress(&cfg)
	if r.Violation == nil || r.Violation.Invariant != "Progress" {
		t.Fatalf("got %v in %d states, want a state in which no node leads", r.Violation, r.States)
	}
	wantGolden(t, "keys-expire.txt", "# The key of a dead leader must expire: otherwise no other node could ever lead.\n\n"+r.Violation.String())
}

// TestProgressOfKeysBroughtBack restores etcd from backups that contain candidates' keys.
func TestProgressOfKeysBroughtBack(t *testing.T) {
	skipRaced(t)
	cfg := keysBroughtBack(0).changes(0)
	cfg.Releases, cfg.M, cfg.A = 1, cfg.M[:1], cfg.A[:1]
	sum := each(t, []*Config{&cfg}, CheckProgress)
	t.Logf("%s\n%s", sum, &sum.counts)
	wantMoves(moveRestore, moveGiveUpLease, moveYield)(t, sum.counts)
}

// keysBroughtBack is a small world in which a restore brings back a candidate's key.
func keysBroughtBack(off safeguard) Config {
	return two(off, 1, 1).leavingKeys().restored(restoreAll).withdrawing().objects(sameForm).faults(2).changes(1)
}

// TestProgressNeedsLeaseNotRestored keeps the lease of a sidecar that does not take part in the election.
func TestProgressNeedsLeaseNotRestored(t *testing.T) {
	skipRaced(t)
	cfg := keysBroughtBack(leaseNotRestored)
	r := CheckProgress(&cfg)
	if r.Violation == nil || r.Violation.Invariant != "Progress" {
		t.Fatalf("got %v in %d states, want a state in which no node leads", r.Violation, r.States)
	}
	wantGolden(t, "lease-not-restored.txt",
		"# A sidecar whose presence lives would keep a key for ever that a restore brought back: it gives up the lease of both.\n\n"+r.Violation.String())
}

// TestProgressNeedsLeaseGivenUp keeps the lease of a leader that gave up and could not delete its key.
func TestProgressNeedsLeaseGivenUp(t *testing.T) {
	cfg := two(leaseGivenUp, 1, 1).leavingKeys()
	r := CheckProgress(&cfg)
	if r.Violation == nil || r.Violation.Invariant != "Progress" {
		t.Fatalf("got %v in %d states, want a state in which no node leads", r.Violation, r.States)
	}
	wantGolden(t, "lease-given-up.txt",
		"# A sidecar whose presence lives would keep the key of an ended leadership for ever: it gives up the lease of both.\n\n"+r.Violation.String())
}
