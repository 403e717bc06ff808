package protocol

import (
	"fmt"
	"time"
)

// ServiceRun is how a service of a node runs, for as long as its sidecar has run it.
type ServiceRun struct {
	Name     string
	Optional bool // required: false
	Ready    bool
	Ends     bool   // the sidecar stops it, or has stopped it
	LastExit string // how it ended last by itself; empty: it never did
	Restarts int    // how often it was started again after it had ended by itself
	// Unready is for how long it has run, or has been about to, without being ready; 0: it
	// waits for another one.
	Unready time.Duration
	Since   time.Time // when Unready began
	Problem string    // what the last probe found; empty: nothing
	File    string    // that defines it; empty: unknown
	Changed time.Time // when that was written; zero: unknown
}

// ServicePatience is how long a service may run without being ready before that is a fault.
const ServicePatience = time.Minute

// FailingServices returns a warning of each service that has ended, was started again, and
// is not ready, or that runs and does not become ready (docs/protocol.md#services). One that
// has just started, or that the sidecar stops, is not failing. The messages have no counts
// and no times that pass: each change of a warning is written to etcd.
func FailingServices(of []ServiceRun) []Warning {
	var out []Warning
	for _, r := range of {
		w := Warning{}
		switch {
		case r.Ready, r.Ends:
			continue
		case r.LastExit != "" && r.Restarts > 0:
			w.Reason, w.Message = ServiceFailing, fmt.Sprintf("its service %q ended (%s) and is not ready again; the sidecar status of that node has its last lines", r.Name, r.LastExit)
		case r.Unready >= ServicePatience:
			w.Reason, w.Since, w.Message = ServiceNotReady, r.Since, fmt.Sprintf("its service %q runs and does not become ready", r.Name)
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
			w.Reason = OptionalServiceFailing
		}
		out = append(out, w)
	}
	return out
}
