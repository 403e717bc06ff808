package httpapi

import (
	"time"

	"github.com/lockstep-dev/lockstep/report"
)

// Serves reports whether /readyz answers 200.
func Serves(s Snapshot) bool {
	now, _ := servesNow(s)
	return now.Serves
}

// servesNow returns the answer of /readyz, and when it last changed (docs/protocol-nodes.md#serves).
func servesNow(s Snapshot) (report.Standing, time.Time) {
	v, since := verdict(s), s.Gate.Since
	out := report.Standing{Serves: v.Ready, ServesReason: string(v.Reason), ServesMessage: v.Message}
	if !v.Ready || !s.APIServer.Enabled {
		return out, since
	}
	if s.APIServer.Since.After(since) {
		since = s.APIServer.Since
	}
	if !s.APIServer.Ready {
		reason, message := s.APIServer.Problem()
		out = report.Standing{ServesReason: string(reason), ServesMessage: message}
	}
	return out, since
}
