package readiness

import (
	"context"
	"fmt"
	"time"
)

// ProofTime is how long an instance has to run before a program counts that has succeeded before the
// instance was started, too. A kube-apiserver whose port is in use ends within that time.
const ProofTime = 10 * time.Second

var errUnproven = fmt.Errorf("its probe succeeded before it was started, too: another program may answer; it counts when the service has run for %s", ProofTime)

// Proven returns the probe of an instance that is starting now, from one that succeeded just before.
//
// An address shows which program listens there, and AwaitFree waits until none does. A program that
// probes (Exec) shows nothing of the kind: it may look for a file that the instance before has left, or
// wake a unit through its socket. So the instance is started, and has to outlive what it takes to find
// another program in its place.
func Proven(probe Probe) Probe {
	began := time.Now()
	return func(ctx context.Context) error {
		if err := probe(ctx); err != nil || time.Since(began) >= ProofTime {
			return err
		}
		return errUnproven
	}
}
