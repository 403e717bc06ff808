//go:build lockstep_steps

package clockshift

import (
	"os"
	"time"
	_ "unsafe" // for linkname
)

// clockVariable shifts the wall clock of this process by a duration, such as -1h: in the
// whole program, in etcd and in TLS too. The monotonic clock stays as it is. The name does
// not begin with LOCKSTEP_, so that the sidecar passes it on to its etcd member.
const clockVariable = "TEST_CLOCK_SHIFT"

// kernelClock is the function of the kernel that reads a clock, which it maps into each
// process (vdso(7)). The runtime calls it for each time.Now.
//
//go:linkname kernelClock runtime.vdsoClockgettimeSym
var kernelClock uintptr

var (
	unshiftedClock uintptr // kernelClock before the shift
	clockShift     int64   // in seconds
)

// shiftedClock returns the address of a function that calls unshiftedClock, and adds
// clockShift to a wall clock.
func shiftedClock() uintptr

func init() {
	text := os.Getenv(clockVariable)
	if text == "" {
		return
	}
	shift, err := time.ParseDuration(text)
	if err != nil || kernelClock == 0 {
		panic("the clock cannot be shifted by " + text) // a test that asks for it must not go on
	}
	clockShift, unshiftedClock = int64(shift/time.Second), kernelClock
	kernelClock = shiftedClock()
}
