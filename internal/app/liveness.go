package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockstep-dev/lockstep/event"
)

// loop is a loop without which this sidecar would show an old verdict for ever.
type loop int

const (
	gateLoop loop = iota
	snapshotLoop
	presenceLoop
	loops // how many there are
)

func (l loop) String() string { return [...]string{"gate", "snapshot", "presence"}[l] }

const (
	// minStuck is longer than any loop waits for etcd: an etcd that does not answer must
	// not fail /livez, since a restart would close a gate that is open.
	minStuck = 30 * time.Second
	// stuckLeases is how many TTLs a loop may make no round.
	stuckLeases = 3
	// ticksUntilStuck is how many ticks that is.
	ticksUntilStuck = 6
)

// liveness notices loops that make no progress. It counts ticks of its own and not time:
// in a process that was paused, nothing ticks, and no loop is stuck.
type liveness struct {
	limit time.Duration
	ticks *event.Value[int64]
	seen  [loops]atomic.Int64 // 1 + the tick of the newest round; 0: the loop has not begun
}

func newLiveness(ttl time.Duration) *liveness {
	return &liveness{limit: max(stuckLeases*ttl, minStuck), ticks: event.New(int64(0))}
}

// run ticks until ctx ends.
func (l *liveness) run(ctx context.Context) error {
	tick := time.NewTicker(l.limit / ticksUntilStuck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			event.Update(l.ticks, func(n int64) int64 { return n + 1 })
		}
	}
}

// beatOf returns what a loop calls in each round: it notes the round, and returns a
// channel that closes when the next one is due.
func (l *liveness) beatOf(which loop) func() <-chan struct{} {
	return func() <-chan struct{} {
		now, next := l.ticks.Load()
		l.seen[which].Store(1 + now)
		return next
	}
}

// stuck names the loops that make no progress, with what is wrong.
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
