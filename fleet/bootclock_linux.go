package fleet

import (
	"time"

	"golang.org/x/sys/unix"
)

// now reads CLOCK_BOOTTIME. That clock stops while a hypervisor pauses the machine, see
// docs/operations.md.
func (c bootClock) now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return c.sinceStart() // this kernel never provides the clock
	}
	return time.Duration(now.Nano())
}
