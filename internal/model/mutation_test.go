package model

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden stories anew")

// mutation is a protocol without some rule, and a world in which that shows.
type mutation struct {
	name string
	why  string // the rule exists
	cfg  Config
	base safeguard // of the rules that are off: one that would hide the others
}

// two is a small world of two releases.
func two(off safeguard, m, a int) Config {
	return Config{
		Nodes: 2, Releases: 2, Builds: 1, M: []int{1, m}, A: []int{1, a}, Faults: 1, Changes: 3,
		Objects: []shape{sameForm, changedForm}, Start: settled, Off: off, Coarse: true,
	}
}

// three is a small world of three releases, the last of which needs a
// reconciler of the second.
func three(off safeguard) Config {
	c := two(off, 1, 1)
	c.Releases, c.M, c.A = 3, []int{1, 1, 2}, []int{1, 1, 1}
	return c
}

// builds is a small, new world of one release with two builds.
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
func (c Config) fine() Config                  { c.Coarse = false; return c }
func (c Config) policed() Config               { c.Policy = true; return c }

func mutations() []mutation {
	return []mutation{
		{
			"register-first", "A gate that reads the status before its record is in etcd serves without the leader waiting for it.",
			two(registerFirst, 1, 2), 0,
		},
		{
			"guard-on-node-records", "A node that registers between the leader's snapshot and its write is not counted, and the status shuts it out.",
			two(nodesGuard, 1, 2).faults(0), 0,
		},
		{
			"decide-from-a-snapshot", "A watch's revision is the store's, also where events are not delivered yet: a guard built on it passes while a node is unseen.",
			two(snapshot, 1, 2).faults(0), 0,
		},
		{
			"guard-on-the-leaders-key", "A leader that was deposed between its snapshot and its write would write over its successor's status.",
			two(leaderGuard, 1, 1), 0,
		},
		{
			"confirmed-leadership", "A candidate whose lease is gone can be told that it leads; where there is no status yet nothing else keeps it from writing objects.",
			builds(confirmed).fresh(), 0,
		},
		{
			"intersection", "While objects of both contents are there, a status for the one admits nodes that do not fit the other.",
			two(intersection, 1, 2).faults(0), 0,
		},
		{
			"fence", "A request of a former leader lands late and puts old content over new.",
			two(preconditions, 1, 1).faults(0), 0,
		},
		{
			"lost-status", "Nodes still serve on the status that was lost; who takes the cluster for new brings objects that they do not fit.",
			two(lostStatus|firstOnce, 1, 2), firstOnce,
		},
		{
			"first-done", "A mark without firstDone is of a first reconciliation that was not finished: a status built from it opens gates before the objects are there.",
			two(firstDone, 1, 1).fresh(), 0,
		},
		{
			"new-content-epoch", "With one content epoch for two contents nothing tells a stale write from a current one.",
			builds(newContentEpoch | preconditions).policed(), preconditions,
		},
		{
			"wait-for-the-undrained", "An object that needed no write keeps its resourceVersion, so a request of a former leader still fits it after DONE.",
			two(drainWait, 1, 1).faults(0), 0,
		},
		{
			"wait-before-stamps-serve", "Where the mark is gone, a request that lands after the objects were listed brings content that the status built from them does not cover.",
			two(drainSurvey, 1, 2).faults(2).bothLost(), 0,
		},
		{
			"drained-for-those-before", "A short-lived leader that says it left nothing behind would hide the requests of the one before it.",
			two(drainInherits, 1, 1).faults(0).changes(4), 0,
		},
		{
			"known-outcomes", "A request that timed out may still land; the next leader has to wait for it.",
			two(knownOutcomes, 1, 1), 0,
		},
		{
			"first-only-once", "A leader that saw no mark goes on with a first reconciliation although another one has finished it since; what it writes was never announced by a restricted status.",
			two(firstOnce, 1, 2).fresh().faults(2).changes(2), 0,
		},
		{
			"status-serves", "Objects that are the same in every content keep the stamp of the oldest: a mark made from that would have gates closed that serve.",
			three(statusServes).faults(2).changes(2), 0,
		},
		{
			"status-means-first-done", "Where all objects and the mark were deleted, the new mark is not that of a new cluster: gates serve on.",
			two(statusIsDone|statusServes, 1, 2).faults(3).changes(1).objects(changedForm), statusServes,
		},
		{
			"epoch-taken", "A leader that looked before its predecessor's mark landed gives its content the same epoch: nothing tells a stale write from a current one.",
			three(epochTaken).fresh().objects(changedForm), 0,
		},
		{
			"newer-registered", "A newer node that is only cut off finds its content taken back, brings it again when it is there, and so on.",
			two(newerRegistered, 1, 1), 0,
		},
		{
			"blockers-both-ways", "A node that needs a newer reconciler than the leader is a blocker as much as one that is too old (HoldForNewer holds most such leaders back already).",
			two(twoWays|newerRegistered, 2, 1).asking("GuardHeld"), newerRegistered,
		},
		{
			"mark-first", "Content that the mark does not name is not covered by the status that is rebuilt from it.",
			two(markFirst, 1, 1), 0,
		},
		{
			"registered-not-alive", "A node that is cut off serves on; that its presence is gone does not prove that it is down.",
			two(registeredBlock, 1, 2), 0,
		},
		{
			"closed-without-status", "A node that takes a missing status for leave to serve does so before anybody made the objects fit.",
			two(absentKeepsClosed, 1, 2).fresh().faults(0), 0,
		},
		{
			"self-fencing", "A node that is cut off serves on: who passes over its record brings objects that it does not fit, unless its gate has closed before.",
			two(selfFencing, 1, 2).expiring().asking("Compatible"), 0,
		},
		{
			"fenced-registers", "A gate that was closed while its node was passed over must not open on a status from before: only one that is read after another registration counts.",
			two(fencedRegisters, 1, 2).expiring().fine().changes(1).asking("Compatible"), 0,
		},
		{
			"announced", "A presence that came back and went again between two looks of the leader starts the node's clock anew, not the leader's, unless the record was written in between.",
			two(announced, 1, 2).expiring().faults(2).changes(1).asking("Compatible"), 0,
		},
	}
}

// TestMutations turns each rule off and wants the checker to find what breaks.
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

// TestMutationsAreNeeded checks that the same worlds are sound with the rule in
// force: it is the missing rule that the stories tell of.
func TestMutationsAreNeeded(t *testing.T) {
	skipRaced(t)
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			m.cfg.Off = m.base
			if r := Check(&m.cfg, 10_000); r.Violation != nil {
				t.Errorf("got a violation with the rule in force:\n%s", r.Violation)
			}
		})
	}
}

// TestBothLost keeps what no rule prevents yet: the status and the mark are lost
// at the same time, and the stamps alone tell of content that is long gone.
func TestBothLost(t *testing.T) {
	skipRaced(t)
	cfg := two(0, 2, 1).faults(2).bothLost()
	r := Check(&cfg, 0)
	if r.Violation == nil {
		t.Fatal("got no violation: the limit that docs/model.md names is gone, take it out")
	}
	wantGolden(t, "limit-both-lost.txt", "# Not prevented: stamps of objects that never change are of the oldest content.\n\n"+r.Violation.String())
}

// TestLooseClock keeps what rests on clocks: a leader that is paused between the
// check of its lease and a request sends it whenever it goes on.
func TestLooseClock(t *testing.T) {
	skipRaced(t)
	cfg := two(0, 1, 1).policed()
	cfg.LooseClock = true
	r := Check(&cfg, 0)
	if r.Violation == nil {
		t.Fatal("got no violation: the limit that docs/model.md names is gone, take it out")
	}
	wantGolden(t, "limit-loose-clock.txt", "# Not prevented: an object that the new content did not change keeps its old stamp and resourceVersion.\n\n"+r.Violation.String())
}

// TestRestamp shows that the proposal closes what the clocks leave open.
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
