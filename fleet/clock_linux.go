package fleet

import (
	"time"

	"golang.org/x/sys/unix"
)

// now reads CLOCK_BOOTTIME. It stands still while a hypervisor has paused the
// machine: docs/operations.md says so.
func (c bootClock) now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return c.sinceStart() // a kernel that does not have it never has it
	}
	return time.Duration(now.Nano())
}
