package allowance

import (
	"math"
	"syscall"
)

// FileLimit returns how many files this process may open. At the start, Go raised the limit to the highest that
// the system allows.
func FileLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur) //nolint:unconvert // its type depends on the system
}
