package protocol

import "fmt"

// ServiceRun is how a service of a node runs, for as long as its sidecar has run it.
type ServiceRun struct {
	Name     string
	Ready    bool
	Ends     bool   // the sidecar stops it, or has stopped it
	LastExit string // how it ended last; empty: it never did
	Restarts int    // how often it was started again after it had ended by itself
}

// FailingServices returns a warning of each service that has ended, was started again, and
// is not ready (docs/protocol.md#services). One that starts for the first time,
// or that the sidecar stops, is not failing. The messages have no counts: each change of a
// warning is written to etcd.
func FailingServices(runs []ServiceRun) []Warning {
	var out []Warning
	for _, r := range runs {
		if r.Ready || r.Ends || r.LastExit == "" || r.Restarts == 0 {
			continue
		}
		out = append(out, Warning{Reason: ServiceFailing, Message: fmt.Sprintf(
			"its service %q ended (%s) and is not ready again; `sidecar status` of this node shows its last lines", r.Name, r.LastExit)})
	}
	return out
}
