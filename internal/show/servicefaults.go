package show

import (
	"time"

	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
)

// answerPause is how long a warning keeps the answer of a probe: the answers of a service that is
// not ready often alternate, and each change of a warning causes a write to etcd.
const answerPause = 30 * time.Second

// probeAnswer is the answer of a probe in a warning.
type probeAnswer struct {
	text string
	at   time.Time // when the warning took it over
}

// serviceRuns returns the services of this node as facts for the protocol, and the answers of their
// probes that warnings quote from now on.
func serviceRuns(s service.State, was map[string]probeAnswer, now time.Time) ([]nodeservices.Run, map[string]probeAnswer) {
	var out []nodeservices.Run
	answers := map[string]probeAnswer{}
	for _, st := range s.Services {
		shown, found := was[st.Name]
		if !found || shown.text != st.Problem && now.Sub(shown.at) >= answerPause {
			shown = probeAnswer{text: st.Problem, at: now}
		}
		answers[st.Name] = shown
		run := st.Run(now)
		run.Problem = shown.text
		out = append(out, run)
	}
	return out, answers
}

// nextServiceFault returns when the warnings about services change only because time passes; zero:
// never.
func nextServiceFault(s service.State, shown map[string]probeAnswer, now time.Time) time.Time {
	var all []time.Time
	for _, st := range s.Services {
		if !st.Pends() {
			continue
		}
		at := st.Since.Add(nodeservices.Patience)
		if has, found := shown[st.Name]; found && !at.After(now) && has.text != st.Problem {
			at = has.at.Add(answerPause)
		}
		all = append(all, at)
	}
	return earliest(now, all...)
}

// earliest returns the earliest time after now; zero: there is none.
func earliest(now time.Time, all ...time.Time) (next time.Time) {
	for _, at := range all {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}
