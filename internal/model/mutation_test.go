package model

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden stories again")

// mutation is a protocol without a safeguard, and a world in which that shows.
type mutation struct {
	name string
	why  string // the safeguard exists
	cfg  Config
	base safeguard // the part of Off that would hide the mutation if it were on
}

// two is a small world of two releases.
func two(off safeguard, m, a int) Config {
	return Config{
		Nodes: 2, Releases: 2, Builds: 1, M: []int{1, m}, A: []int{1, a}, Faults: 1, Changes: 3,
		Objects: []shape{sameForm, changedForm}, Start: settled, Off: off, Coarse: true,
	}
}

// three is a small world of three releases. The last one needs a reconciler of
// the second.
func three(off safeguard) Config {
	c := two(off, 1, 1)
	c.Releases, c.M, c.A = 3, []int{1, 1, 2}, []int{1, 1, 1}
	return c
}

// builds is a small world of one release with two builds.
func builds(off safeguard) Config {
	return Config{
		Nodes: 2, Releases: 1, Builds: 2, M: []int{1}, A: []int{1}, Faults: 1, Changes: 3,
		Objects: []shape{sameForm, changedForm}, Start: settled, Off: off, Coarse: true,
	}
}

func (c Config) fresh() Config                 { c.Start = newCluster; return c }
func (c Config) changes(n int) Config          { c.Changes = n; return c }
func (c Config) faults(n int) Config           { c.Faults = n; return c }
func (c Config) objects(s ...shape) Config     { c.Objects = s; return c }
func (c Config) bothLost() Config              { c.BothLost = true; return c }
func (c Config) asking(names ...string) Config { c.Only = names; return c }
func (c Config) expiring() Config              { c.Expire = true; return c }
func (c Config) ephemeral() Config             { c.Expire, c.Ephemeral = true, true; return c }
func (c Config) serving() Config               { c.Services, c.Roles = true, true; return c }
func (c Config) failing() Config               { c.Services, c.Failing = true, true; return c }
func (c Config) deployed() Config              { c.Deployed = true; return c }
func (c Config) publishing() Config            { c.Publishes = true; return c }
func (c Config) fine() Config                  { c.Coarse = false; return c }
func (c Config) twoStores() Config             { c.Stores = true; return c }
func (c Config) withRoles() Config             { c.Roles = true; return c }
func (c Config) policed() Config               { c.Policy = true; return c }
func (c Config) strangers() Config             { c.Strangers = true; return c }
func (c Config) loose() Config                 { c.LooseClock = true; return c }
func (c Config) kept() Config                  { c.Keep = true; return c }
func (c Config) immediately() Config           { c.Immediately = true; return c }
func (c Config) restored(r restore) Config     { c.Restore = r; return c }
func (c Config) leavingKeys() Config           { c.KeysLeft = true; return c }
func (c Config) unnoticed() Config             { c.Unnoticed = true; return c }
func (c Config) cordoning() Config             { c.Cordons = true; return c }
func (c Config) rollingBack() Config           { c.Rollbacks = true; return c }
func (c Config) fromUpgraded() Config          { c.Start = upgraded; return c }
func (c Config) deathsOnly() Config            { c.Deaths = true; return c }
func (c Config) bothWays() Config              { c.Ways = true; return c }
func (c Config) without(g rollbackSafeguard) Config {
	c.Rollbacks, c.OffRollback = true, g
	return c
}
func (c Config) withdrawing() Config { c.Withdraw = true; return c }
func (c Config) named(n int) Config  { c.Names, c.Builds = true, n; return c }

func mutations() []mutation {
	return slices.Concat(statusMutations(), objectMutations(), expiryMutations(), serviceMutations(), strangerMutations(), removalMutations(), restoreMutations(), nameMutations(), rollbackMutations())
}

// rollbackMutations concern the removals and the end of a rollback. Its other mutations break Progress.
func rollbackMutations() []mutation {
	ends := two(0, 1, 1).faults(0).asking("RolledBack")
	return []mutation{
		{
			"newer-needs", "While nodes of the newer release serve, they may need the objects that the older release does not have.",
			two(0, 1, 1).faults(0).without(newerNeeds).objects(addedForm, changedForm).asking("Needed"), 0,
		},
		{
			"newer-awaited", "A rollback that ends while a node of the newer release is registered lets that node bring its own objects again.",
			ends.without(newerAwaited), 0,
		},
		{
			"done-awaited", "A rollback that ends before the objects are there leaves them half way, and the next node of the newer release brings its own again.",
			ends.fromUpgraded().without(doneAwaited), 0,
		},
		{
			"corrupt-awaited", "A corrupt record may be of a node of the newer release, which would bring its own objects again.",
			ends.faults(1).without(corruptAwaited), 0,
		},
		{
			"end-unchanged", "A node of the newer release registers after a sidecar has found that the rollback is done, and before that sidecar ends it.",
			ends.without(endUnchanged), 0,
		},
		{
			"begun-again", "People give a rollback more time while a sidecar that finds its time over is about to end it.",
			ends.fromUpgraded().without(begunAgain), 0,
		},
	}
}

// statusMutations concern the writers and the content of the status.
func statusMutations() []mutation {
	return []mutation{
		{
			"register-first", "A gate that reads the status before its record is in etcd serves although the leader does not wait for it.",
			two(registerFirst, 1, 2), 0,
		},
		{
			"guard-on-node-records", "A node that registers between the leader's snapshot and its write is not counted, and the status shuts it out.",
			two(nodesGuard, 1, 2).faults(0), 0,
		},
		{
			"decide-from-a-snapshot", "A watch can have the revision of the store before it has delivered all events: a guard built on it passes while a node is unseen.",
			two(snapshot, 1, 2).faults(0), 0,
		},
		{
			"guard-on-the-leaders-key", "A leader that is deposed between its snapshot and its write would overwrite the status of its successor.",
			two(leaderGuard, 1, 1), 0,
		},
		{
			"confirmed-leadership", "A candidate whose lease has expired can be elected; without a status, nothing else stops it from writing objects.",
			builds(confirmed).fresh(), 0,
		},
		{
			"intersection", "While objects of two contents are present, a status for one of them admits nodes that do not fit the other.",
			two(intersection, 1, 2).faults(0), 0,
		},
		{
			"newer-registered", "The content of a newer node that is only cut off is rolled back; when the node returns it brings its content again, and so on.",
			two(newerRegistered, 1, 1), 0,
		},
		{
			"blockers-both-ways", "A node that needs a newer reconciler than the leader is a blocker, as is a node that is too old (HoldForNewer stops most such leaders already).",
			two(twoWays|newerRegistered, 2, 1).asking("GuardHeld"), newerRegistered,
		},
		{
			"registered-not-alive", "A node that is cut off goes on serving: a missing presence does not prove that the node is down.",
			two(registeredBlock, 1, 2), 0,
		},
		{
			"one-store", "Two stores do not know each other: a leader of one of them writes objects that the status of the other does not cover.",
			two(oneStore, 1, 2).fresh().faults(0).twoStores().asking("Compatible"), 0,
		},
		{
			"serves-until-registered", "A node whose controller role was just taken away does not know it yet, and serves: a leader that does not wait for it writes objects that do not fit it.",
			two(servesUntilRegistered, 1, 2).faults(0).withRoles().asking("Compatible"), 0,
		},
		{
			"cordoned-counts", "A node that was just taken out of service does not know it yet, and serves: a leader that does not wait for it writes objects that do not fit it.",
			two(cordonedCounts, 1, 2).faults(0).cordoning().asking("Compatible"), 0,
		},
		{
			"closed-without-status", "A node that serves without a status does so before any leader has made the objects fit.",
			two(absentKeepsClosed, 1, 2).fresh().faults(0), 0,
		},
	}
}

// objectMutations concern late requests, the mark, and the replacement of a lost
// status or mark.
func objectMutations() []mutation {
	return []mutation{
		{
			"fence", "A request of a former leader lands late and puts old content over new.",
			two(preconditions, 1, 1).faults(0), 0,
		},
		{
			"lost-status", "Nodes still serve on the status that was lost; a leader that treats the cluster as new writes objects that do not fit them.",
			two(lostStatus|firstOnce, 1, 2), firstOnce,
		},
		{
			"first-done", "A mark without firstDone means that no first reconciliation was finished: a status built from it opens gates before the objects exist.",
			two(firstDone, 1, 1).fresh(), 0,
		},
		{
			"new-content-epoch", "If two contents have one content epoch, nothing distinguishes a stale write from a current one.",
			builds(newContentEpoch | preconditions).policed(), preconditions,
		},
		{
			"wait-for-the-undrained", "An object that needed no write keeps its resourceVersion, so a request of a former leader still fits it after DONE.",
			two(drainWait, 1, 1).faults(0), 0,
		},
		{
			"wait-before-stamps-serve", "Without a mark, a request that lands after the objects were listed brings content that the status built from them does not cover.",
			two(drainSurvey, 1, 2).faults(2).bothLost(), 0,
		},
		{
			"drained-for-those-before", "A short-lived leader that records itself as drained would hide the requests of the leader before it.",
			two(drainInherits, 1, 1).faults(0).changes(4), 0,
		},
		{
			"known-outcomes", "A request that timed out may still land; the next leader has to wait for it.",
			two(knownOutcomes, 1, 1), 0,
		},
		{
			"first-only-once", "A leader that saw no mark continues a first reconciliation although another leader has finished one: no restricted status announced what it writes.",
			two(firstOnce, 1, 2).fresh().faults(2).changes(2), 0,
		},
		{
			"status-serves", "Objects that are the same in every content keep the oldest stamp: a mark built from stamps would close gates that serve.",
			three(statusServes).faults(2).changes(2), 0,
		},
		{
			"status-means-first-done", "After all objects and the mark were deleted, gates still serve, so the new mark must not be that of a new cluster.",
			two(statusIsDone|statusServes, 1, 2).faults(3).changes(1).objects(changedForm), statusServes,
		},
		{
			"epoch-taken", "A leader that surveyed before its predecessor's mark landed gives its content the same epoch: nothing distinguishes a stale write from a current one.",
			three(epochTaken).fresh().objects(changedForm), 0,
		},
		{
			"created-without-a-mark", "A POST has no precondition: one that lands late, after the mark was deleted again, would bring back a mark without the newest content.",
			two(blankFirst, 1, 1).faults(3).changes(2).objects(changedForm).asking("NoStaleWrite"), 0,
		},
		{
			"mark-first", "A status that is rebuilt from the mark does not cover content that the mark does not name.",
			two(markFirst, 1, 1), 0,
		},
	}
}

// expiryMutations concern records that expire.
func expiryMutations() []mutation {
	return []mutation{
		{
			"self-fencing", "A node that is cut off goes on serving: a leader that ignores its record writes objects that do not fit it, unless its gate has closed before.",
			two(selfFencing, 1, 2).expiring().asking("Compatible"), 0,
		},
		{
			"overdue-registers", "A gate that closed as overdue must not open on an older status: only a status that is read after another registration counts.",
			two(overdueRegisters, 1, 2).expiring().fine().changes(1).asking("Compatible"), 0,
		},
		{
			"announced", "A presence that returns and expires between two rounds of the leader restarts the node's clock, but not the leader's, unless the record is written in between.",
			two(announced, 1, 2).expiring().faults(2).changes(1).asking("Compatible"), 0,
		},
		{
			"leaves-last", "A kube-apiserver answers its clients for a while after the gate has closed: a record that is deleted before it has stopped lets the leader write objects that do not fit it.",
			two(leavesLast, 1, 2).ephemeral().faults(0).changes(1), 0,
		},
		{
			"deletes-expired", "A node that is cut off goes on serving: a leader that deletes its record does not wait for it.",
			two(deletesExpired, 1, 2).ephemeral().asking("Compatible"), 0,
		},
		{
			"deletes-unchanged", "A node registers again after the leader has found that its record expired: the leader would delete the record of a node that serves.",
			two(deletesUnchanged, 1, 2).ephemeral().faults(2).asking("Awaited"), 0,
		},
	}
}

// serviceMutations concern the order in which services are started and stopped.
func serviceMutations() []mutation {
	return []mutation{
		{
			"old-ends", "A kube-apiserver of the old release still runs when its node's record names the new one: no leader waits for it.",
			two(oldEnds, 1, 2).serving(), 0,
		},
		{
			"ready-first", "A load balancer sends requests to a kube-apiserver that has not started yet.",
			two(readyFirst, 1, 1).serving().faults(0), 0,
		},
		{
			"place-free", "The kube-apiserver of the old release still runs, and answers the probe of the new one: its node counts as upgraded.",
			two(placeFree, 1, 2).failing(), 0,
		},
		{
			"gate-first", "A kube-apiserver is stopped while load balancers send requests to it.",
			two(gateFirst, 1, 1).serving().faults(0), 0,
		},
		{
			"address-first", "A kube-apiserver is stopped while the Service kubernetes leads clients to it.",
			two(addressFirst, 1, 1).serving().publishing().faults(0), 0,
		},
		{
			"services-end", "A sidecar that stops ends while its kube-apiserver runs: its presence is missing, and an administrator may remove its record.",
			two(servicesEnd, 1, 1).serving().faults(0), 0,
		},
		{
			"apiserver-first", "A sidecar of the new release registers beside the old kube-apiserver, which a kubelet has not replaced yet: no leader waits for it.",
			two(apiserverFirst, 1, 2).deployed().faults(0), 0,
		},
		{
			"roles-known", "A sidecar that starts while etcd is unreachable stops the kube-apiserver that ran without it.",
			two(rolesKnown, 1, 1).serving(), 0,
		},
	}
}

// strangerMutations concern objects that users of the API changed.
func strangerMutations() []mutation {
	return []mutation{
		{
			"epochs-from-etcd", "A user who may write one object would steer the leader: a number on the object would become the content epoch of all.",
			two(epochsFromEtcd, 1, 1).strangers(), 0,
		},
		{
			"stamps-checked", "A leader that removes a stamp above its own without reading the mark again writes over the objects of its successor.",
			two(stampsChecked, 1, 1).loose().policed().kept().asking("NoStaleWrite"), 0,
		},
		{
			"epoch-recorded", "A leader that repairs an object without having recorded itself may have requests in flight of which the next leader knows nothing.",
			two(epochRecorded, 1, 1).kept().objects(droppedForm, changedForm), 0,
		},
	}
}

// removalMutations concern objects that are deleted, and the inventory.
func removalMutations() []mutation {
	return []mutation{
		{
			"delete-preconditions", "A deletion that comes late deletes an object that another leader has written since.",
			two(deletePreconditions, 1, 1).faults(0).objects(recreatedForm), 0,
		},
		{
			"inventory-only", "Labels and stamps can be forged: a leader that believes them removes objects of others.",
			two(inventoryOnly, 1, 1).strangers().objects(droppedForm, changedForm), 0,
		},
		{
			"inventory-first", "An object that is written before the inventory lists it is never removed if its leader stops in between.",
			two(inventoryFirst, 1, 1).fresh().faults(0).objects(droppedForm), 0,
		},
		{
			"removals-first", "A node whose M relies on removals that do not wait for nodes serves as soon as the status is DONE.",
			two(removalsFirst, 2, 1).faults(0).objects(droppedForm, changedForm).immediately().asking("Compatible"), 0,
		},
	}
}

// restoreMutations concern an etcd that is restored from a backup.
func restoreMutations() []mutation {
	return []mutation{
		{
			"restore-ends-term", "A leader that goes on after a restore believes that it has finished what the restore has undone.",
			two(restoreEndsTerm, 1, 1).restored(restoreAll), 0,
		},
		{
			"restore-registers", "A restore brings back old records. A gate that stays open meanwhile serves with a release that is not in its record.",
			two(restoreRegisters, 1, 1).restored(restoreAll), 0,
		},
	}
}

// nameMutations concern bundles with different names.
func nameMutations() []mutation {
	return []mutation{
		{
			"bundle-held", "A node that is started with the bundle of another platform leads, and replaces all objects by those of the other one.",
			builds(bundleHeld).named(2), 0,
		},
		{
			"name-read", "A leader whose program does not know names writes a status without one: the next leader has to read the name that is beside the mark.",
			builds(nameRead).named(3), 0,
		},
		{
			"name-kept", "A program that does not know names writes the mark again: the name beside it must stay.",
			builds(nameKept).named(3), 0,
		},
	}
}

// TestMutations turns off each safeguard and expects the search to find a
// violation.
func TestMutations(t *testing.T) {
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			if raced && m.cfg.Faults > 0 {
				t.Skip("takes too long under the race detector")
			}
			r := Check(&m.cfg, 0)
			if r.Violation == nil {
				t.Fatalf("got no violation in %d states, want one: %s", r.States, m.why)
			}
			got := "# " + m.why + "\n# Found in: " + m.cfg.String() + "\n\n" + r.Violation.String()
			wantGolden(t, m.name+".txt", got)
		})
	}
}

// TestMutationsAreNeeded checks that the same worlds are safe with the safeguard:
// it is the missing safeguard that breaks them.
func TestMutationsAreNeeded(t *testing.T) {
	skipRaced(t)
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			m.cfg.Off, m.cfg.OffRollback = m.base, 0
			if r := Check(&m.cfg, 10_000); r.Violation != nil {
				t.Errorf("got a violation with the safeguard on:\n%s", r.Violation)
			}
		})
	}
}

// TestBothLost documents a violation that no safeguard prevents: the status and the mark are
// lost at the same time, and the stamps name content that was replaced long ago.
func TestBothLost(t *testing.T) {
	skipRaced(t)
	cfg := two(0, 2, 1).faults(2).bothLost()
	r := Check(&cfg, 0)
	if r.Violation == nil {
		t.Fatal("got no violation: docs/model.md names a limit that no longer exists; delete it there")
	}
	wantGolden(t, "limit-both-lost.txt", "# Not prevented: objects that never change have the stamp of the oldest content.\n\n"+r.Violation.String())
}

// TestLooseClock documents a violation that depends on clocks: a leader that is paused between
// the check of its lease and a request sends the request when it continues.
func TestLooseClock(t *testing.T) {
	skipRaced(t)
	cfg := two(0, 1, 1).policed()
	cfg.LooseClock = true
	r := Check(&cfg, 0)
	if r.Violation == nil {
		t.Fatal("got no violation: docs/model.md names a limit that no longer exists; delete it there")
	}
	wantGolden(t, "limit-loose-clock.txt", "# Not prevented: an object that the new content does not change keeps its old stamp and resourceVersion.\n\n"+r.Violation.String())
}

// TestRestoredUnnoticed documents a violation if sidecars do not reach etcd: a restore
// brings back the record of a node that is cut off, and leaders believe it.
func TestRestoredUnnoticed(t *testing.T) {
	skipRaced(t)
	cfg := two(0, 1, 2).restored(restoreAll).unnoticed().asking("Compatible")
	r := Check(&cfg, 0)
	if r.Violation == nil {
		t.Fatal("got no violation: docs/model.md names a limit that no longer exists; delete it there")
	}
	wantGolden(t, "limit-restored-unnoticed.txt", "# Not prevented: a node that is cut off from etcd serves, and a restore has brought back an older record of it.\n\n"+r.Violation.String())
}

// TestRestoredAlone documents why Lockstep's etcd and the API's etcd are restored
// together: a status that is older than the objects does not cover them.
func TestRestoredAlone(t *testing.T) {
	skipRaced(t)
	cfg := two(0, 1, 2).restored(restoreStore).asking("Compatible")
	r := Check(&cfg, 0)
	if r.Violation == nil {
		t.Fatal("got no violation: docs/model.md names a limit that no longer exists; delete it there")
	}
	wantGolden(t, "limit-restored-alone.txt", "# Not prevented: Lockstep's etcd is restored, and that of the API is not.\n\n"+r.Violation.String())
}

// TestRestamp shows that the proposal closes the gap that clocks leave open.
func TestRestamp(t *testing.T) {
	skipRaced(t)
	for _, p := range constraints(2) {
		cfg := two(0, p[0][1], p[1][1])
		cfg.LooseClock, cfg.Restamp = true, true
		if r := Check(&cfg, 0); r.Violation != nil {
			t.Errorf("%s:\n%s", &cfg, r.Violation)
		}
	}
}

func skipRaced(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("takes too long under the race detector")
	}
}

func wantGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -run TestMutations -rewrite writes it)", err)
	}
	if got != string(want) {
		t.Errorf("the story changed; got:\n%s\nwant:\n%s", got, want)
	}
}
