package main

import (
	"log/slog"
	"strconv"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

const (
	// graceVariable contains the grace period of the pod in which the sidecar runs: no program can read that
	// itself.
	graceVariable = "LOCKSTEP_TERMINATION_GRACE_PERIOD"
	// afterDelay is how long a stop takes besides the shutdown delay, at least.
	afterDelay = 5 * time.Second
)

// gracePeriod returns the grace period of the pod, in whole seconds or as a duration; 0:
// the variable is not set.
func (p program) gracePeriod() (time.Duration, error) {
	text, found := p.LookupEnv(graceVariable)
	if !found || text == "" {
		return 0, nil
	}
	period, err := time.ParseDuration(text)
	if seconds, invalid := strconv.ParseUint(text, 10, 31); invalid == nil {
		period, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || period <= 0 {
		return 0, console.Usagef("%s: invalid value %q: must be the terminationGracePeriodSeconds of the pod, like 60 or 60s", graceVariable, text)
	}
	return period, nil
}

// warnOfGracePeriod warns if the kubelet would kill the sidecar before it stopped.
func warnOfGracePeriod(log *slog.Logger, delay, period time.Duration) {
	if period == 0 || delay+afterDelay <= period {
		return
	}
	log.Warn("shutdown delay does not fit into the grace period of the pod: the kubelet kills the containers before they have stopped",
		"shutdownDelay", delay, "gracePeriod", period, "remedy", "set terminationGracePeriodSeconds to "+
			strconv.Itoa(int((delay+afterDelay+time.Second-1)/time.Second))+" or more, and "+graceVariable+" likewise")
}
