package model

import (
	"flag"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var walkSeed = flag.Uint64("model.seed", 0, "repeat this one random walk")

// largeWorld is a world of 7 nodes. The seed chooses its constraints.
func largeWorld(seed uint64) *Config {
	random := rand.New(rand.NewPCG(seed, 1))
	pairs := constraints(5)
	p := pairs[random.IntN(len(pairs))]
	some := func() bool { return random.IntN(2) == 0 }
	return &Config{
		Nodes: 7, Releases: 5, Builds: 2, M: p[0], A: p[1], Faults: 40, Changes: 40,
		Objects: []shape{sameForm, changedForm, shape(1 + random.IntN(3))}, Start: start(random.IntN(2)), Policy: some(),
		Strangers: some(), Withdraw: some(), Keep: some(), Immediately: some(), Restore: restore(random.IntN(2)),
		Cordons: some(), Rollbacks: some(), Expire: some(),
	}
}

// TestRandomWalks7Nodes5Releases walks through worlds that are too large for an
// exhaustive search. A failure names its seed.
func TestRandomWalks7Nodes5Releases(t *testing.T) {
	first, walks := uint64(1), 200
	if raced {
		walks = 5
	}
	if *full {
		walks = 30_000
	}
	if *walkSeed != 0 {
		first, walks = *walkSeed, 1
	}
	steps, unfollowed, sum := 0, 0, newCounts()
	for seed := first; seed < first+uint64(walks); seed++ {
		cfg := largeWorld(seed)
		r, walk := RandomWalk(cfg, seed, 400)
		steps += len(walk.Path)
		unfollowed += r.Unfollowed
		sum.merge(r.Counts)
		if r.Violation != nil {
			t.Fatalf("%s, %d builds: go test ./internal/model -run TestRandomWalks -model.seed=%d\n%s", cfg, cfg.Builds, seed, r.Violation)
		}
	}
	t.Logf("%d walks, %d moves", walks, steps)
	if unfollowed > 0 {
		t.Errorf("%d moves were not tried, since a state has no room for their result: raise maxLeaders, maxOrphans or maxEntries", unfollowed)
	}
	if walks > 100 {
		wantMoves(moveBeginRollback, moveForgetRollback, moveEndRollback, moveDropRollback, moveCordon, moveLearnCordon, moveFence, moveExpireRecord)(t, sum)
	}
}

func TestRandomWalk(t *testing.T) {
	t.Run("the same seed takes the same walk", func(t *testing.T) {
		_, first := RandomWalk(largeWorld(7), 7, 200)
		_, second := RandomWalk(largeWorld(7), 7, 200)
		if !slices.Equal(first.Path, second.Path) {
			t.Errorf("got %v, then %v", first.Path, second.Path)
		}
	})
	stray := func(t *testing.T, off safeguard) *Violation {
		t.Helper()
		for seed := range uint64(2000) {
			cfg := largeWorld(seed)
			cfg.Off = off
			if r, _ := RandomWalk(cfg, seed, 400); r.Violation != nil {
				return r.Violation
			}
		}
		t.Fatal("got no violation in 2000 walks")
		return nil
	}
	t.Run("finds a safeguard that is off", func(t *testing.T) {
		stray(t, leaderGuard)
	})
	t.Run("names nodes in the violation as in the story", func(t *testing.T) {
		v := stray(t, registerFirst)
		named := regexp.MustCompile(`^n[1-7] is ready`).FindString(v.Why)
		if named == "" || !strings.Contains(v.String(), named[:2]+" is started") {
			t.Errorf("got %s", v)
		}
	})
}
