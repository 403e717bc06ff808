//go:build !lockstep_steps

package cluster

import "time"

// afterStep does nothing in a sidecar that ships. steps_on.go is what tests build.
func afterStep(_, _ string) {}

// evictAfter is how long a learner may make no progress; zero: the default.
func evictAfter() time.Duration { return 0 }
