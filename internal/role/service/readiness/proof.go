package readiness

import (
	"context"
	"fmt"
	"time"
)

// ProofTime is how long an instance must run before its probe counts, if the probe succeeded before
// the start, too. A kube-apiserver whose port is in use ends within that time.
const ProofTime = 10 * time.Second

var errUnproven = fmt.Errorf("its probe succeeded before it was started, too: another program may answer; it counts when the service has run for %s", ProofTime)

// Proven wraps a probe that succeeded just before the start of an instance.
//
// For an address, AwaitFree waits until no program listens there. A program that probes (Exec)
// gives no such proof: it may look for a file of the previous instance, or wake a unit through its
// socket. So the instance starts, and must run for longer than it needs to find that another
// program occupies its place.
func Proven(probe Probe) Probe {
	began := time.Now()
	return func(ctx context.Context) error {
		if err := probe(ctx); err != nil || time.Since(began) >= ProofTime {
			return err
		}
		return errUnproven
	}
}
