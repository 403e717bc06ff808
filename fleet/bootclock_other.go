//go:build !linux

package fleet

import "time"

// now reads the monotonic clock. On some systems it stops while the machine is
// suspended, see docs/operations.md.
func (c bootClock) now() time.Duration { return c.sinceStart() }
