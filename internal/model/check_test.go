package model

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

var full = flag.Bool("model.full", false, "search the large bound, too: some minutes")

// total sums what several searches came to.
type total struct {
	states, transitions, configurations, violations, unfollowed int

	counts counts
	began  time.Time
}

// everything sums all searches of a run.
var everything = newTotal()

// TestMain ends a run of the large bound with a line of what it covered.
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
		t.Errorf("%s: %d moves were not followed, since a World has no room for their result: raise maxLeaders, maxOrphans or maxEntries",
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

// String is the line that a search ends with.
func (s *total) String() string {
	return fmt.Sprintf("%d states and %d transitions in %d configurations, %d violations, %d moves not followed (%s)",
		s.states, s.transitions, s.configurations, s.violations, s.unfollowed, time.Since(s.began).Round(time.Second))
}

// searchAll searches all assignments of constraints to releases, from a settled
// cluster and, with one fault less, from a new one.
func searchAll(t *testing.T, cfg Config) *total {
	t.Helper()
	var cfgs []*Config
	for _, p := range Constraints(cfg.Releases) {
		for _, start := range []Start{Settled, NewCluster} {
			one := cfg
			one.M, one.A, one.Start = p[0], p[1], start
			if start == NewCluster {
				one.Faults = max(0, cfg.Faults-1)
			}
			cfgs = append(cfgs, &one)
		}
	}
	return each(t, cfgs, func(cfg *Config) Result { return Check(cfg, limit()) })
}

// each checks configurations, as many at once as there are processors.
func each(t *testing.T, cfgs []*Config, check func(*Config) Result) *total {
	t.Helper()
	sum := newTotal()
	out := make([]Result, len(cfgs))
	next := make(chan int, len(cfgs)) // has room for all
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

// limit is how many states a search visits: all, but under the race detector.
func limit() int {
	if raced {
		return 1000
	}
	return 0
}

// TestExhaustive3Nodes2Releases2Faults moves nodes to other contents twice.
func TestExhaustive3Nodes2Releases2Faults(t *testing.T) {
	cfg := Config{Nodes: 3, Releases: 2, Builds: 1, Faults: 2, Changes: 2, Objects: []Shape{Same, Changed}, Coarse: true}
	sum := searchAll(t, cfg)
	t.Log(sum)
	if !raced {
		wantReached(t, sum.counts)
	}
}

// TestExhaustive3Nodes3Releases2Faults is the large bound: nodes are moved to
// other contents twice.
func TestExhaustive3Nodes3Releases2Faults(t *testing.T) {
	if !*full {
		t.Skip("takes minutes: -model.full")
	}
	cfg := Config{Nodes: 3, Releases: 3, Builds: 1, Faults: 2, Changes: 2, Objects: []Shape{Same, Changed}, Coarse: true}
	sum := searchAll(t, cfg)
	t.Log(sum)
	wantReached(t, sum.counts)
}

// TestExhaustive3NodesUpgradeAndBack moves nodes four times, without faults and
// with two objects that differ: whole upgrades, given up and taken back.
func TestExhaustive3NodesUpgradeAndBack(t *testing.T) {
	skipRaced(t)
	cfg := Config{Nodes: 3, Releases: 2, Builds: 1, Faults: 0, Changes: 4, Objects: []Shape{Same, Changed, Changed}, Coarse: true}
	t.Log(searchAll(t, cfg))
}

// TestExhaustive3NodesThatExpire has records that leaders pass over, and nodes
// that are cut off and come back.
func TestExhaustive3NodesThatExpire(t *testing.T) {
	skipRaced(t)
	cfg := Config{Nodes: 3, Releases: 2, Builds: 1, Faults: expiryFaults(), Changes: 2, Objects: []Shape{Same, Changed}, Coarse: true, Expire: true}
	sum := searchAll(t, cfg)
	t.Log(sum)
	for _, want := range []moveKind{moveFence, moveOutwait} {
		if sum.counts.moves[want] == 0 {
			t.Errorf("move %d was never made", want)
		}
	}
}

// expiryFaults is one fault, and two where there is time.
func expiryFaults() int {
	if *full {
		return 2
	}
	return 1
}

// TestExhaustive3NodesThatExpireOnce has two faults, and people who do one thing.
func TestExhaustive3NodesThatExpireOnce(t *testing.T) {
	skipRaced(t)
	cfg := Config{Nodes: 3, Releases: 2, Builds: 1, Faults: 2, Changes: 1, Objects: []Shape{Same, Changed}, Coarse: true, Expire: true}
	t.Log(searchAll(t, cfg))
}

// TestExhaustive2NodesThatExpireFineSteps does the same with every move on its
// own.
func TestExhaustive2NodesThatExpireFineSteps(t *testing.T) {
	skipRaced(t)
	cfg := Config{Nodes: 2, Releases: 2, Builds: 1, Faults: expiryFaults(), Changes: 2, Objects: []Shape{Same, Changed}, Expire: true}
	t.Log(searchAll(t, cfg))
}

// TestExhaustive2NodesFineSteps has every move on its own: nodes that started
// and are not registered, statuses that are read late.
func TestExhaustive2NodesFineSteps(t *testing.T) {
	skipRaced(t)
	cfg := Config{Nodes: 2, Releases: 2, Builds: 1, Faults: 1, Changes: 2, Objects: []Shape{Same, Changed}}
	t.Log(searchAll(t, cfg))
}

// wantReached checks that a search saw every rule of Next and every verdict that
// the world can bring about: a search that sees nothing finds nothing.
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
			t.Errorf("no gate ever said %s", want)
		}
	}
}
