//go:build !linux

package fleet

import "time"

// now reads the monotonic clock, which stands still on some systems while the
// machine is suspended: docs/operations.md says so.
func (c bootClock) now() time.Duration { return c.sinceStart() }
