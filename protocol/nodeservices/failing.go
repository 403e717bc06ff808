package nodeservices

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// Run describes how a service of a node runs, since its sidecar first started it.
type Run struct {
	Name     string
	Optional bool // required: false
	Ready    bool
	Ends     bool   // the sidecar is stopping it, or stopped it
	LastExit string // how it ended last by itself; empty: it never did
	Restarts int    // how often it was started again after it ended by itself
	Served   bool   // it was ready since it was last started
	// Unready is how long it has been running or starting without being ready; 0: it waits
	// for another service.
	Unready time.Duration
	Since   time.Time // when Unready began
	Problem string    // found by the last probe; empty: none
	File    string    // its definition; empty: unknown
	Changed time.Time // when File was written; zero: unknown
}

// Patience is how long a service may run without being ready before it counts as failing.
const Patience = time.Minute

// Failing returns a warning about each service that ended, was started again and was
// not ready since, or that runs and does not become ready (docs/protocol-nodes.md#services). A service
// that just started, or that the sidecar stops, is not failing. The messages contain no counts
// and no elapsed times: each change of a warning is written to etcd.
func Failing(of []Run) []protocol.Warning {
	var out []protocol.Warning
	for _, r := range of {
		w := protocol.Warning{}
		switch {
		case r.Ready, r.Ends:
			continue
		case r.LastExit != "" && r.Restarts > 0 && !r.Served:
			w.Reason, w.Message = protocol.ServiceFailing, fmt.Sprintf("its service %q ended (%s) and is not ready again; the sidecar status of that node has its last lines", r.Name, r.LastExit)
		case r.Unready >= Patience:
			w.Reason, w.Since, w.Message = protocol.ServiceNotReady, r.Since, fmt.Sprintf("its service %q runs and does not become ready", r.Name)
			if r.Problem != "" {
				w.Message += ": " + r.Problem
			}
		default:
			continue
		}
		if r.File != "" {
			w.Message += "; its file: " + r.File
		}
		if !r.Changed.IsZero() {
			w.Message += ", changed " + r.Changed.UTC().Format(time.RFC3339)
		}
		if r.Optional {
			w.Reason = warn.OptionalServiceFailing
		}
		out = append(out, w)
	}
	return out
}
