package fleet

import "time"

// bootClock is a clock that runs on while the machine is suspended, as the
// leaders' clocks do meanwhile (DESIGN 4.9), where the system has one. Its
// readings are compared with each other only.
type bootClock struct {
	started time.Time // for systems that have none
}

func newBootClock() bootClock { return bootClock{started: time.Now()} }

// sinceStart reads the monotonic clock.
func (c bootClock) sinceStart() time.Duration { return time.Since(c.started) }
