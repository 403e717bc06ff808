package fleet

import "time"

// bootClock is a clock that also runs while the machine is suspended, if the system provides
// one. Leaders' clocks run meanwhile, too (docs/protocol-nodes.md#dead-nodes). Compare its readings
// only with each other.
type bootClock struct {
	started time.Time // for systems without such a clock
}

func newBootClock() bootClock { return bootClock{started: time.Now()} }

// sinceStart reads the monotonic clock.
func (c bootClock) sinceStart() time.Duration { return time.Since(c.started) }
