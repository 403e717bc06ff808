//go:build lockstep_steps

package cluster

import (
	"context"
	"os"
	"syscall"
	"time"
)

// afterStep ends this process with SIGKILL if LOCKSTEP_EXIT_AFTER_STEP names the
// step, as create/marker. It does not return then.
func afterStep(way, name string) {
	if os.Getenv("LOCKSTEP_EXIT_AFTER_STEP") != way+"/"+name {
		return
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err) // a test that asks for it must not go on
	}
	select {}
}

// stopAfterStep sends SIGTERM to this process if LOCKSTEP_STOP_AFTER_STEP names the step,
// and returns when ctx has ended.
func stopAfterStep(ctx context.Context, way, name string) {
	if os.Getenv("LOCKSTEP_STOP_AFTER_STEP") != way+"/"+name {
		return
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		panic(err) // a test that asks for it must not go on
	}
	<-ctx.Done()
}

// evictAfter is how long a learner may make no progress: LOCKSTEP_EVICT_AFTER; zero: the
// default.
func evictAfter() time.Duration { return durationOf("LOCKSTEP_EVICT_AFTER") }

// promoteAfter is how long a learner stays one at least: LOCKSTEP_PROMOTE_AFTER; zero: no longer than it
// needs.
func promoteAfter() time.Duration { return durationOf("LOCKSTEP_PROMOTE_AFTER") }

func durationOf(variable string) time.Duration {
	text := os.Getenv(variable)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err) // a test that asks for it must not go on
	}
	return d
}
