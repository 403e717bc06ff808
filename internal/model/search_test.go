package model

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

var full = flag.Bool("model.full", false, "search the larger worlds too: two minutes")

// total sums the results of several searches.
type total struct {
	states, transitions, configurations, violations, unfollowed int

	counts counts
	began  time.Time
}

// everything sums all searches of a run.
var everything = newTotal()

// TestMain ends a run of the larger worlds with a line that shows its coverage.
func TestMain(m *testing.M) {
	code := m.Run()
	if *full {
		fmt.Println("model:", everything)
	}
	os.Exit(code)
}

func newTotal() *total { return &total{counts: newCounts(), began: time.Now()} }

func (s *total) add(t *testing.T, r Result) {
	t.Helper()
	s.count(r)
	everything.count(r)
	if r.Unfollowed > 0 {
		t.Errorf("%s: %d moves were not followed, since a state has no room for their result: raise maxLeaders, maxOrphans or maxEntries",
			r.Config, r.Unfollowed)
	}
	if r.Violation != nil {
		t.Errorf("%s:\n%s", r.Config, r.Violation)
	}
}

func (s *total) count(r Result) {
	s.states += r.States
	s.transitions += r.Transitions
	s.configurations++
	s.unfollowed += r.Unfollowed
	s.counts.merge(r.Counts)
	if r.Violation != nil {
		s.violations++
	}
}

// String is the last line of a search.
func (s *total) String() string {
	return fmt.Sprintf("%d states and %d transitions in %d configurations, %d violations, %d moves not followed (%s)",
		s.states, s.transitions, s.configurations, s.violations, s.unfollowed, time.Since(s.began).Round(time.Second))
}

// searchAll searches with all valid constraints of the releases, from a
// settled cluster and, with one fault less, from a new one; or from an upgraded one.
func searchAll(t *testing.T, cfg Config) *total {
	t.Helper()
	var cfgs []*Config
	starts := []start{settled, newCluster}
	if cfg.Start == upgraded {
		starts = []start{upgraded}
	}
	for _, p := range constraints(cfg.Releases) {
		for _, from := range starts {
			one := cfg
			one.M, one.A, one.Start = p[0], p[1], from
			if from == newCluster {
				one.Faults = max(0, cfg.Faults-1)
			}
			cfgs = append(cfgs, &one)
		}
	}
	return each(t, cfgs, func(cfg *Config) Result { return Check(cfg, limit()) })
}

// each checks configurations, one on each processor at a time.
func each(t *testing.T, cfgs []*Config, check func(*Config) Result) *total {
	t.Helper()
	sum := newTotal()
	out := make([]Result, len(cfgs))
	next := make(chan int, len(cfgs)) // room for all
	for i := range cfgs {
		next <- i
	}
	close(next)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range next {
				out[i] = check(cfgs[i])
			}
		})
	}
	workers.Wait()
	for _, r := range out {
		sum.add(t, r)
	}
	return sum
}

// limit is how many states a search visits: all, except under the race detector.
func limit() int {
	if raced {
		return 1000
	}
	return 0
}

// bound is a world that is searched completely.
type bound struct {
	name  string
	full  bool // it is part of -model.full only
	light bool // -model.full has a larger one
	cfg   Config
	wants func(*testing.T, counts) // checks how far the search reached; nil: not checked
}

// twoObjects are an object that never changes and one that always changes.
var twoObjects = []shape{sameForm, changedForm}

// bounds are the worlds of TestExhaustive. Unless a name says otherwise, a
// release consists of one build, moves are coarse, and records do not expire.
func bounds() []bound {
	return []bound{
		{
			name: "3 nodes, 2 releases, 2 faults, 2 changes", light: true, wants: wantReached,
			cfg: Config{Nodes: 3, Releases: 2, Builds: 1, Faults: 2, Changes: 2, Objects: twoObjects, Coarse: true},
		},
		{
			name: "whole upgrades, given up and rolled back: 3 nodes, 2 releases, 4 changes",
			cfg:  Config{Nodes: 3, Releases: 2, Builds: 1, Changes: 4, Objects: []shape{sameForm, changedForm, changedForm}, Coarse: true},
		},
		{
			name: "records that expire: 3 nodes, 2 releases, 2 changes", wants: wantExpiry,
			cfg: Config{Nodes: 3, Releases: 2, Builds: 1, Faults: expiryFaults(), Changes: 2, Objects: twoObjects, Coarse: true, Expire: true},
		},
		{
			name: "records that expire: 3 nodes, 2 releases, 2 faults, 1 change",
			cfg:  Config{Nodes: 3, Releases: 2, Builds: 1, Faults: 2, Changes: 1, Objects: twoObjects, Coarse: true, Expire: true},
		},
		{
			name: "records that expire, fine moves: 2 nodes, 2 releases, 2 changes",
			cfg:  Config{Nodes: 2, Releases: 2, Builds: 1, Faults: expiryFaults(), Changes: 2, Objects: twoObjects, Expire: true},
		},
		{
			name: "ephemeral records: 2 nodes, 2 releases, 2 changes", wants: wantEphemeral,
			cfg: Config{Nodes: 2, Releases: 2, Builds: 1, Changes: 2, Objects: twoObjects, Coarse: true, Expire: true, Ephemeral: true},
		},
		{
			name: "ephemeral records: 3 nodes, 2 releases, 1 fault, 2 changes", full: true, wants: wantEphemeral,
			cfg: Config{Nodes: 3, Releases: 2, Builds: 1, Faults: 1, Changes: 2, Objects: twoObjects, Coarse: true, Expire: true, Ephemeral: true},
		},
		{
			name: "ephemeral records, fine moves: 2 nodes, 2 releases, 1 fault, 2 changes", full: true, wants: wantEphemeral,
			cfg: Config{Nodes: 2, Releases: 2, Builds: 1, Faults: 1, Changes: 2, Objects: twoObjects, Expire: true, Ephemeral: true},
		},
		{
			name: "fine moves: 2 nodes, 2 releases, 1 fault, 2 changes",
			cfg:  Config{Nodes: 2, Releases: 2, Builds: 1, Faults: 1, Changes: 2, Objects: twoObjects},
		},
		{
			name: "roles taken and given: 2 nodes, 2 releases, 1 fault, 3 changes", wants: wantMoves(moveTakeRole, moveGiveRole),
			cfg: Config{Nodes: 2, Releases: 2, Builds: 1, Faults: 1, Changes: 3, Objects: twoObjects, Coarse: true, Roles: true},
		},
		{
			name: "roles taken and given, records that expire, fine moves: 2 nodes, 2 releases, 3 changes", full: true,
			cfg: Config{Nodes: 2, Releases: 2, Builds: 1, Changes: 3, Objects: twoObjects, Roles: true, Expire: true},
		},
		{
			name: "bundles replaced in a sidecar that runs: 2 nodes, 2 builds of 1 release, 1 fault, 3 changes", wants: wantMoves(moveReload),
			cfg: Config{Nodes: 2, Releases: 1, Builds: 2, Faults: 1, Changes: 3, Objects: twoObjects, Coarse: true, Reload: true},
		},
		{
			name: "bundles replaced in a sidecar that runs: 2 nodes, 2 builds of 1 release, 2 faults, 3 changes", full: true,
			cfg: Config{Nodes: 2, Releases: 1, Builds: 2, Faults: 2, Changes: 3, Objects: twoObjects, Coarse: true, Reload: true},
		},
		{
			name: "two stores at one API: 2 nodes, 2 releases, 2 faults, 2 changes", wants: wantStores,
			cfg: Config{Nodes: 2, Releases: 2, Builds: 1, Faults: 2, Changes: 2, Objects: twoObjects, Coarse: true, Stores: true},
		},
		{
			name: "3 nodes, 3 releases, 2 faults, 2 changes", full: true, wants: wantReached,
			cfg: Config{Nodes: 3, Releases: 3, Builds: 1, Faults: 2, Changes: 2, Objects: twoObjects, Coarse: true},
		},
		{
			name: "3 nodes, 2 releases, 2 faults, 3 changes", full: true,
			cfg: Config{Nodes: 3, Releases: 2, Builds: 1, Faults: 2, Changes: 3, Objects: twoObjects, Coarse: true},
		},
		{
			name: "2 nodes, 2 releases, 3 faults, 2 changes, 1 object", full: true,
			cfg: Config{Nodes: 2, Releases: 2, Builds: 1, Faults: 3, Changes: 2, Objects: []shape{changedForm}, Coarse: true},
		},
		{
			name: "5 nodes, 2 releases, 2 faults, 2 changes", full: true,
			cfg: Config{Nodes: 5, Releases: 2, Builds: 1, Faults: 2, Changes: 2, Objects: twoObjects, Coarse: true},
		},
		{
			name: "4 nodes, 4 releases, 2 changes", full: true,
			cfg: Config{Nodes: 4, Releases: 4, Builds: 1, Changes: 2, Objects: twoObjects, Coarse: true},
		},
		{
			name: "2 builds of each release: 2 nodes, 2 releases, 2 faults, 2 changes", full: true,
			cfg: Config{Nodes: 2, Releases: 2, Builds: 2, Faults: 2, Changes: 2, Objects: twoObjects, Coarse: true},
		},
		{
			name: "3 builds of one release: 3 nodes, 2 faults, 2 changes", full: true,
			cfg: Config{Nodes: 3, Releases: 1, Builds: 3, Faults: 2, Changes: 2, Objects: twoObjects, Coarse: true},
		},
		{
			name: "2 builds, records that expire, fine moves: 2 nodes, 2 releases, 1 fault, 2 changes", full: true,
			cfg: Config{Nodes: 2, Releases: 2, Builds: 2, Faults: 1, Changes: 2, Objects: twoObjects, Expire: true},
		},
		{
			name: "records that expire, fine moves: 3 nodes, 2 releases, 1 fault, 2 changes", full: true,
			cfg: Config{Nodes: 3, Releases: 2, Builds: 1, Faults: 1, Changes: 2, Objects: twoObjects, Expire: true},
		},
	}
}

// moreBounds are the bounds with strangers, repairs between two passes, removals,
// kube-apiservers that do not answer, and backups.
func moreBounds() []bound {
	small := Config{Nodes: 2, Releases: 2, Builds: 1, Faults: 1, Changes: 2, Objects: twoObjects, Coarse: true}
	large := small.faults(2)
	drops := []shape{droppedForm, changedForm}
	all := small.strangers().kept().withdrawing().immediately().objects(droppedForm, recreatedForm)
	more := small.withdrawing()
	more.Nodes, more.Releases = 3, 3
	names := large.named(2).changes(3)
	names.Releases = 1
	whole := small.rollingBack().fromUpgraded().objects(addedForm, droppedForm).changes(3)
	skipping := whole
	skipping.Releases = 3
	larger := small
	larger.Nodes = 3
	fleet := whole.deathsOnly().changes(4)
	fleet.Nodes = 3
	return []bound{
		{
			name: "strangers, repairs between passes, no API, removals: 2 nodes, 2 releases, 1 fault, 2 changes", cfg: all,
			wants: wantMoves(moveForge, moveStranger, moveRepair, moveRepairMark, moveBreakAPI, moveYield, moveCampaign),
		},
		{
			name: "cordons: 2 nodes, 2 releases, 1 fault, 2 changes", cfg: small.cordoning(),
			wants: wantMoves(moveCordon, moveUncordon, moveLearnCordon),
		},
		{
			name: "whole rollbacks, cordons: 2 nodes, 3 releases, 3 changes", cfg: skipping.cordoning().faults(0),
			wants: wantRollbacks,
		},
		{
			name: "whole rollbacks: 2 nodes, 2 releases, 1 death, 3 changes", cfg: whole.deathsOnly(),
			wants: wantWhole,
		},
		{
			name: "keys that are left in etcd: 2 nodes, 2 releases, 1 fault, 2 changes", cfg: small.leavingKeys(),
			wants: wantMoves(moveLeaveKey, moveGiveUpLease),
		},
		{name: "keys that are left in etcd: 2 nodes, 2 releases, 2 faults, 2 changes", full: true, cfg: large.leavingKeys()},
		{name: "keys that are left in etcd, records that expire: 2 nodes, 2 releases, 1 fault, 2 changes", full: true, cfg: small.leavingKeys().expiring()},
		{name: "keys that are left in etcd, fine moves: 2 nodes, 2 releases, 1 fault, 2 changes", full: true, cfg: small.leavingKeys().fine()},
		{name: "whole rollbacks: 3 nodes, 2 releases, 1 death, 4 changes", full: true, cfg: fleet, wants: wantWhole},
		{name: "whole rollbacks: 2 nodes, 3 releases, 1 death, 3 changes", full: true, cfg: skipping.deathsOnly(), wants: wantWhole},
		{name: "whole rollbacks, records that expire: 2 nodes, 2 releases, 1 fault, 3 changes", full: true, cfg: whole.expiring(), wants: wantWhole},
		{name: "whole rollbacks, etcd restored: 2 nodes, 2 releases, 1 death, 3 changes", full: true, cfg: whole.restored(restoreAll).deathsOnly().objects(changedForm), wants: wantWhole},
		{name: "rollbacks, fine moves: 2 nodes, 2 releases, 1 fault, 2 changes", full: true, cfg: small.rollingBack().fine()},
		{name: "cordons, fine moves: 2 nodes, 2 releases, 1 fault, 2 changes", full: true, cfg: small.cordoning().fine()},
		{name: "cordons: 3 nodes, 2 releases, 2 changes", full: true, cfg: larger.cordoning().faults(0)},
		{
			name: "etcd restored with the API: 2 nodes, 2 releases, 1 fault, 1 change", cfg: small.restored(restoreAll).changes(1),
			wants: wantMoves(moveBackUp, moveRestore),
		},
		{name: "bundles with two names: 2 nodes, 1 release, 1 fault, 3 changes", cfg: names.faults(1), wants: wantNames},
		{name: "bundles with two names: 2 nodes, 1 release, 2 faults, 3 changes", full: true, cfg: names, wants: wantNames},
		{name: "bundles with two names, fine moves: 2 nodes, 1 release, 1 fault, 3 changes", full: true, cfg: names.faults(1).fine(), wants: wantNames},
		{name: "bundles with two names: 2 nodes, 1 release, 1 fault, 5 changes", full: true, cfg: names.faults(1).changes(5), wants: wantNames},
		{
			name: "bundles with two names, programs that do not know names: 2 nodes, 1 release, 1 fault, 4 changes", full: true,
			cfg: names.faults(1).changes(4).named(3), wants: wantHeld,
		},
		{name: "strangers: 2 nodes, 2 releases, 2 faults, 2 changes", full: true, cfg: large.strangers().policed()},
		{
			name: "strangers, repairs, removals when all nodes are upgraded: 2 nodes, 2 releases, 2 faults, 2 changes", full: true,
			cfg: large.strangers().kept().objects(drops...),
		},
		{name: "repairs between passes: 2 nodes, 2 releases, 2 faults, 2 changes", full: true, cfg: large.kept()},
		{name: "no API: 2 nodes, 2 releases, 2 faults, 2 changes", full: true, cfg: large.withdrawing()},
		{name: "no API: 3 nodes, 3 releases, 1 fault, 2 changes", full: true, cfg: more},
		{
			name: "objects created again: 2 nodes, 2 releases, 2 faults, 2 changes", full: true,
			cfg: large.objects(recreatedForm, changedForm),
		},
		{name: "removals at once: 2 nodes, 2 releases, 2 faults, 2 changes", full: true, cfg: large.immediately().objects(drops...)},
		{name: "etcd restored with the API: 2 nodes, 2 releases, 1 fault, 2 changes", full: true, cfg: small.restored(restoreAll)},
		{name: "etcd restored with the API, removals: 2 nodes, 2 releases, 1 fault, 2 changes", full: true, cfg: small.restored(restoreAll).objects(drops...)},
		{
			name: "etcd restored with the API, records that expire: 2 nodes, 2 releases, 1 fault, 2 changes", full: true,
			cfg: small.restored(restoreAll).expiring(),
		},
		{
			name: "etcd restored with the API, fine moves: 2 nodes, 2 releases, 1 fault, 1 change", full: true,
			cfg: small.restored(restoreAll).fine().changes(1),
		},
		{
			name: "etcd restored, the API's not: 2 nodes, 2 releases, 1 fault, 2 changes", full: true,
			cfg: small.restored(restoreStore).asking(withoutTheAPI()...),
		},
	}
}

// withoutTheAPI are the invariants that hold although only Lockstep's etcd was
// restored. The others rest on a status that is as new as the objects
// (docs/protocol.md#assumptions).
func withoutTheAPI() []string {
	return []string{"Registered", "OneWriter", "NoStaleWrite", "GuardHeld", "Steady", "NoFight", "OwnEpochs"}
}

// TestExhaustive visits every state of every bound, for all valid constraints of
// the releases.
func TestExhaustive(t *testing.T) {
	for i, b := range slices.Concat(bounds(), serviceBounds(), moreBounds()) {
		t.Run(b.name, func(t *testing.T) {
			if b.full && !*full {
				t.Skip("part of make model: -model.full")
			}
			if b.light && *full {
				t.Skip("part of a larger world")
			}
			if i > 0 {
				skipRaced(t)
			}
			sum := searchAll(t, b.cfg)
			t.Log(sum)
			if b.wants != nil && !raced {
				b.wants(t, sum.counts)
			}
		})
	}
}

// expiryFaults is one fault, and two where there is time.
func expiryFaults() int {
	if *full {
		return 2
	}
	return 1
}

// wantExpiry checks that gates closed as overdue, and that leaders waited for them.
func wantExpiry(t *testing.T, c counts) {
	t.Helper()
	wantMoves(moveFence, moveExpireRecord)(t, c)
}

// wantEphemeral checks that records were deleted in both ways, and left.
func wantEphemeral(t *testing.T, c counts) {
	t.Helper()
	wantMoves(moveStop, moveStopAPI, moveLeave, moveGiveUp, moveDelete)(t, c)
}

// serviceBounds are the worlds in which nodes run services.
func serviceBounds() []bound {
	return []bound{
		{
			name: "services: 2 nodes, 2 releases, 1 fault, 2 changes", wants: wantServices,
			cfg: Config{Nodes: 2, Releases: 2, Builds: 1, Faults: 1, Changes: 2, Objects: twoObjects, Coarse: true, Services: true},
		},
		{
			name:  "services that fail, or whose place is taken: 2 nodes, 2 releases, 1 fault, 2 changes",
			wants: wantMoves(moveBreakServices, moveTakePlace, moveFreePlace),
			cfg:   Config{Nodes: 2, Releases: 2, Builds: 1, Faults: 1, Changes: 2, Objects: []shape{changedForm}, Coarse: true, Services: true, Failing: true},
		},
		{
			name: "kube-apiservers of others: 2 nodes, 2 releases, 1 fault, 2 changes", wants: wantMoves(moveDeploy, moveKill),
			cfg: Config{Nodes: 2, Releases: 2, Builds: 1, Faults: 1, Changes: 2, Objects: twoObjects, Coarse: true, Deployed: true},
		},
		{
			name: "services, roles taken and given: 2 nodes, 2 releases, 2 changes", wants: wantServices,
			cfg: Config{Nodes: 2, Releases: 2, Builds: 1, Changes: 2, Objects: twoObjects, Coarse: true, Services: true, Roles: true},
		},
		{
			name: "services behind the Service: 2 nodes, 2 releases, 2 changes", wants: wantPublished,
			cfg: Config{Nodes: 2, Releases: 2, Builds: 1, Changes: 2, Objects: twoObjects, Coarse: true, Services: true, Roles: true, Publishes: true},
		},
		{
			name: "services, fine moves: 2 nodes, 2 releases, 2 changes", full: true, wants: wantServices,
			cfg: Config{Nodes: 2, Releases: 2, Builds: 1, Changes: 2, Objects: twoObjects, Services: true, Roles: true},
		},
		{
			name: "services and ephemeral records: 2 nodes, 2 releases, 1 fault, 2 changes", full: true, wants: wantServices,
			cfg: Config{Nodes: 2, Releases: 2, Builds: 1, Faults: 1, Changes: 2, Objects: twoObjects, Coarse: true, Expire: true, Ephemeral: true, Services: true},
		},
	}
}

// wantServices checks that services were started and stopped, also without a sidecar.
func wantServices(t *testing.T, c counts) {
	t.Helper()
	wantMoves(moveStop, moveServe, moveLearnRole, moveGiveUp)(t, c)
}

// wantPublished checks that addresses left the Service as well.
func wantPublished(t *testing.T, c counts) {
	t.Helper()
	wantServices(t, c)
	wantMoves(moveUnpublish)(t, c)
}

// wantRollbacks checks that administrators began and ended rollbacks, and cordoned nodes.
func wantRollbacks(t *testing.T, c counts) {
	t.Helper()
	wantMoves(moveBeginRollback, moveForgetRollback, moveEndRollback, moveCordon)(t, c)
	if c.ended[wholeRollback] == 0 {
		t.Error("no whole fleet ever went back")
	}
}

// wantWhole checks that whole fleets went back, also after a death, and that leaders of rollbacks died in each of their
// steps.
func wantWhole(t *testing.T, c counts) {
	t.Helper()
	for _, step := range []deathStep{
		{}, {doing: writing}, {passing, starting, noRequest}, {passing, beginning, noRequest}, {passing, beginning, beginRequest},
		{passing, applying, noRequest}, {passing, applying, objectRequest}, {passing, relisting, noRequest},
		{passing, finishing, noRequest}, {passing, finishing, finishRequest},
	} {
		if c.deaths[step] == 0 {
			t.Errorf("no leader of a rollback ever died in the step %+v", step)
		}
	}
	if c.ended[wholeRollback] == 0 || c.ended[wholeRollbackAfterDeath] == 0 {
		t.Error("no whole fleet ever went back, or none after a death")
	}
}

// wantStores checks that the leaders of both stores wrote the objects.
func wantStores(t *testing.T, c counts) {
	t.Helper()
	wantMoves(moveOtherParent, moveOtherObject, moveLand)(t, c)
	if c.steps[stepKind{protocol.HoldForStore, protocol.StepHold}] == 0 {
		t.Error("no leader ever held for another store")
	}
}

// wantHeld checks that leaders held for another bundle.
func wantHeld(t *testing.T, c counts) {
	t.Helper()
	if c.steps[stepKind{protocol.HoldForBundle, protocol.StepHold}] == 0 {
		t.Error("no leader ever held for another bundle")
	}
}

// wantNames checks that people also let one replace the other.
func wantNames(t *testing.T, c counts) {
	t.Helper()
	wantHeld(t, c)
	wantMoves(moveReplace)(t, c)
}

// wantMoves checks that a search made these moves.
func wantMoves(kinds ...moveKind) func(*testing.T, counts) {
	return func(t *testing.T, c counts) {
		t.Helper()
		for _, want := range kinds {
			if c.moves[want] == 0 {
				t.Errorf("move %d was never made", want)
			}
		}
	}
}

// wantReached checks that a search reached every rule of Next and every verdict
// that the world can produce. A search that reaches little finds little.
func wantReached(t *testing.T, c counts) {
	t.Helper()
	t.Log("\n" + c.String())
	for _, want := range []stepKind{
		{protocol.ResignToNewer, protocol.StepResign},
		{protocol.HoldForNewer, protocol.StepHold},
		{protocol.FirstReconciliation, protocol.StepReconcile},
		{protocol.FirstReconciliation, protocol.StepWrite},
		{protocol.KeepTarget, protocol.StepWrite},
		{protocol.KeepTarget, protocol.StepReconcile},
		{protocol.KeepTarget, protocol.StepHold},
		{protocol.ApplyContent, protocol.StepSurvey},
		{protocol.ApplyContent, protocol.StepReconcile},
		{protocol.ApplyContent, protocol.StepWrite},
		{protocol.WaitForNodes, protocol.StepAwait},
		{protocol.WaitForNodes, protocol.StepWrite},
		{protocol.RebuildStatus, protocol.StepSurvey},
		{protocol.RebuildStatus, protocol.StepWrite},
	} {
		if c.steps[want] == 0 {
			t.Errorf("%s %s never fired", want.rule, want.kind)
		}
	}
	for _, want := range []protocol.Reason{protocol.Ready, protocol.ReleaseTooOld, protocol.ReconcilerTooOld, protocol.StatusMissing, protocol.StatusCorrupt} {
		if c.verdicts[want] == 0 {
			t.Errorf("no gate ever had the verdict %s", want)
		}
	}
}
