// Package cputime measures how much of a processor a function uses. Only tests use it: on a
// busy machine, time that passes says nothing. It has no goroutines.
package cputime

import (
	"runtime"
	"syscall"
	"time"
)

// rusageThread is RUSAGE_THREAD of Linux.
const rusageThread = 1

// Of runs f, and returns the time for which its thread used a processor. What other
// goroutines that f starts use does not count.
func Of(f func()) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := used()
	if err != nil {
		return 0, err
	}
	f()
	after, err := used()
	return after - before, err
}

func used() (time.Duration, error) {
	var counted syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &counted); err != nil {
		return 0, err
	}
	return time.Duration(counted.Utime.Nano() + counted.Stime.Nano()), nil
}
