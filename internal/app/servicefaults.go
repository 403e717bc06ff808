package app

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/role/service"
)

// answerPause is how long a warning keeps the answer of a probe: the answers of a service
// that is not ready often alternate, and each change of a warning is written to etcd.
const answerPause = 30 * time.Second

// probeAnswer is what a probe found, as a warning has it.
type probeAnswer struct {
	text string
	at   time.Time // when the warning got it
}

// serviceRuns are the services of a node, as the protocol judges them, with the answers of
// their probes that warnings have from now on.
func serviceRuns(s service.State, was map[string]probeAnswer, now time.Time) ([]protocol.ServiceRun, map[string]probeAnswer) {
	var out []protocol.ServiceRun
	answers := map[string]probeAnswer{}
	for _, st := range s.Services {
		shown, found := was[st.Name]
		if !found || shown.text != st.Problem && now.Sub(shown.at) >= answerPause {
			shown = probeAnswer{text: st.Problem, at: now}
		}
		answers[st.Name] = shown
		run := protocol.ServiceRun{
			Name: st.Name, Optional: st.Optional, Ready: st.Ready, Ends: st.Phase == service.Stopped || st.Phase == service.Stopping,
			LastExit: st.LastExit, Restarts: st.Restarts, Problem: shown.text, File: st.Source.File, Changed: st.Source.Changed,
		}
		if unready(st) {
			run.Unready, run.Since = now.Sub(st.Since), st.Since
		}
		out = append(out, run)
	}
	return out, answers
}

// unready reports whether a service runs, or is being started, and is not ready.
func unready(st service.Status) bool {
	return !st.Ready && (st.Phase == service.Running || st.Phase == service.Starting)
}

// nextServiceFault returns when the warnings about services change because time passes; zero:
// they do not.
func nextServiceFault(s service.State, shown map[string]probeAnswer, now time.Time) time.Time {
	var next time.Time
	for _, st := range s.Services {
		if !unready(st) {
			continue
		}
		at := st.Since.Add(protocol.ServicePatience)
		if has, found := shown[st.Name]; found && !at.After(now) && has.text != st.Problem {
			at = has.at.Add(answerPause)
		}
		next = earliest(next, at, now)
	}
	return next
}

// earliest returns the first of two times that is after now; zero: neither is. The first one
// may be zero.
func earliest(a, b, now time.Time) time.Time {
	if b.After(now) && (a.IsZero() || b.Before(a)) {
		return b
	}
	return a
}
