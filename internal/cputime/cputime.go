// Package cputime measures how much of a processor a function uses: on a busy machine, time that
// passes says nothing. It has no goroutines.
package cputime

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Of runs f, also where the time is not known, and returns the time for which its thread used a processor. What other
// goroutines that f starts use does not count.
func Of(f func()) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := used()
	f() // in any case
	if err != nil {
		return 0, err
	}
	after, err := used()
	return after - before, err
}

// used reads the thread's clock. Getrusage would not do: Linux counts there what ran until the last tick, so that of two
// short functions one costs nothing, and the other one up to four milliseconds of what the thread did before.
func used() (time.Duration, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
	return time.Duration(now.Nano()), err
}
