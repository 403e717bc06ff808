//go:build !lockstep_steps

package cluster

import (
	"context"
	"time"
)

// afterStep does nothing in a sidecar that ships. Tests build steps_on.go instead.
func afterStep(_, _ string) {}

// stopAfterStep does nothing either.
func stopAfterStep(context.Context, string, string) {}

// evictAfter is how long a learner may make no progress; zero: the default.
func evictAfter() time.Duration { return 0 }

// promoteAfter is how long a learner stays one at least; zero: no longer than it needs.
func promoteAfter() time.Duration { return 0 }
