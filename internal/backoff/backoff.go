// Package backoff has the pauses between attempts: each is twice as long as the
// one before, up to a limit. It knows nothing of what is attempted, and starts no
// goroutine.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff counts the pauses of one series of attempts. The fields are set once;
// a copy made before the first Next starts a series of its own. The zero Backoff
// does not pause at all. It must not be used by two goroutines at once.
type Backoff struct {
	First time.Duration // the pause after the first failure
	Max   time.Duration // no pause is longer; less than First: every pause is First
	// Jitter takes a random part off each pause, up to this fraction, so that many
	// who failed together do not return together. 0: none; 1: a pause is anything
	// up to its full length.
	Jitter float64

	step  time.Duration // the newest pause without its jitter; 0: none since Reset
	pause time.Duration // the newest pause; 0: none since Reset
}

// Apart is the Jitter of those who ask a server that many others ask too. After the
// server has failed for all of them, they return at times of their own.
const Apart = 0.5

// Next returns the pause before the next attempt. Call it once for each failure.
func (b *Backoff) Next() time.Duration {
	limit := max(b.First, b.Max)
	switch {
	case b.step == 0:
		b.step = b.First
	case b.step > limit/2:
		b.step = limit
	default:
		b.step *= 2
	}
	b.pause = b.step - part(b.step, b.Jitter)
	return b.pause
}

// part returns a random part of d, less than this fraction of it.
func part(d time.Duration, fraction float64) time.Duration {
	return time.Duration(fraction * rand.Float64() * float64(d))
}

// Spread returns a pause of at most d, less the jitter Apart. It is for those whose
// pauses do not grow.
func Spread(d time.Duration) time.Duration { return d - part(d, Apart) }

// Pause returns what Next returned last; 0: Next was not called since Reset.
func (b *Backoff) Pause() time.Duration { return b.pause }

// Reset starts again: the next pause is the first one. Call it after a success.
func (b *Backoff) Reset() { b.step, b.pause = 0, 0 }

// Sleep waits for the next pause, as Next returns it, or until ctx ends. It
// reports whether ctx is still alive.
func (b *Backoff) Sleep(ctx context.Context) bool { return Sleep(ctx, b.Next()) }

// Sleep waits for d or until ctx ends, and reports whether ctx is still alive. It
// does not wait where d is not positive.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// Every calls do once in each interval, first after one, until ctx ends.
func Every(ctx context.Context, interval time.Duration, do func()) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			do()
		}
	}
}
