package readiness

import (
	"context"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// Until a service is ready for the first time, it is probed more often than by a kubelet, so that a
// node does not wait for a whole period after each start.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 200 * time.Millisecond
)

// Result is the result of the probes of one instance so far.
type Result struct {
	Ready bool
	// Problem is the error of the last probe, if the service is not ready; empty: none.
	Problem string
}

// counter turns the results of single probes of one instance into a Result.
type counter struct {
	config              Config
	successes, failures int // in a row
	everReady           bool
	result              Result
}

// add counts the result of one probe, and reports whether the Result changes.
func (c *counter) add(err error) bool {
	next := c.result
	if err == nil {
		c.successes, c.failures = c.successes+1, 0
		if c.successes >= c.config.SuccessThreshold {
			next = Result{Ready: true}
		}
	} else {
		c.successes, c.failures = 0, c.failures+1
		if !c.result.Ready || c.failures >= c.config.FailureThreshold {
			next = Result{Problem: err.Error()}
		}
	}
	changed := next != c.result
	c.result, c.everReady = next, c.everReady || next.Ready
	return changed
}

// Follow probes one instance until ctx ends, and calls report on the caller's goroutine when the
// result changes. An instance is not ready at first.
func Follow(ctx context.Context, c Config, probe Probe, report func(Result)) {
	if !backoff.Sleep(ctx, c.InitialDelay) {
		return
	}
	pauses := backoff.Backoff{First: min(firstPause, c.Period), Max: min(maxPause, c.Period)}
	results := counter{config: c}
	for {
		start := time.Now()
		err := probe(ctx)
		if ctx.Err() != nil {
			return
		}
		if results.add(err) {
			report(results.result)
		}
		pause := c.Period
		if !results.everReady {
			pause = pauses.Next()
		}
		if !backoff.Sleep(ctx, pause-time.Since(start)) {
			return
		}
	}
}
