package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// loop names a loop without which this sidecar would show an old verdict for ever.
type loop int

const (
	gateLoop loop = iota
	snapshotLoop
	presenceLoop
	loops // the number of loops
)

func (l loop) String() string { return [...]string{"gate", "snapshot", "presence"}[l] }

const (
	// minStuck is longer than any loop waits for etcd: a silent etcd must not fail /livez, since a
	// restart would close an open gate.
	minStuck = 30 * time.Second
	// stuckLeases is how many lease TTLs a loop may take for a round.
	stuckLeases = 3
	// ticksUntilStuck is the same limit in ticks.
	ticksUntilStuck = 6
)

// liveness notices loops that make no progress. It counts its own ticks instead of time: a paused
// process does not tick, so no loop counts as stuck.
type liveness struct {
	limit time.Duration
	ticks *event.Value[int64]
	seen  [loops]atomic.Int64 // 1 + the tick of the newest round; 0: the loop has not begun yet
}

func newLiveness(ttl time.Duration) *liveness {
	return &liveness{limit: max(stuckLeases*ttl, minStuck), ticks: event.New(int64(0))}
}

// run ticks until ctx ends.
func (l *liveness) run(ctx context.Context) error {
	return backoff.Every(ctx, l.limit/ticksUntilStuck, func() {
		event.Update(l.ticks, func(n int64) int64 { return n + 1 })
	})
}

// beatOf returns a function that a loop calls in each round: it records the round, and returns a
// channel that closes when the next round is due.
func (l *liveness) beatOf(which loop) func() <-chan struct{} {
	return func() <-chan struct{} {
		now, next := l.ticks.Load()
		l.seen[which].Store(1 + now)
		return next
	}
}

// stuck returns a problem for each loop that makes no progress.
func (l *liveness) stuck() []string {
	var out []string
	now := l.ticks.Get()
	for which := range loops {
		seen := l.seen[which].Load()
		if seen != 0 && 1+now-seen > ticksUntilStuck {
			out = append(out, fmt.Sprintf("%s failed: no progress for %s", which, l.limit))
		}
	}
	return out
}
