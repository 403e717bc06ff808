// Package driver defines the interface between the supervisor of services and the drivers: packages
// process, systemd and staticpod (docs/roles.md#drivers). It owns no state and starts no goroutine.
package driver

import "context"

// Driver runs one service. Many goroutines may call its methods, but only one Run may run at a
// time.
type Driver interface {
	// Run starts one instance and returns when the instance has ended: by itself, or because Run
	// stopped it when ctx ended. No instance of an earlier sidecar runs beside it. If ctx ended before
	// the call, Run starts nothing, and stops a running instance. It gives up after a time that the
	// stop timeout bounds.
	//
	// Run calls running when the instance runs, and again each time that another program, such as
	// systemd, replaced the instance. It calls running only after the previous instance ended: so a
	// probe that succeeds after the call reached the new instance.
	Run(ctx context.Context, running func()) Exit
	// LastLines returns the newest lines of the service's output, oldest first; empty: the driver does
	// not see the output.
	LastLines() []string
}

// Exit describes the end of an instance.
type Exit struct {
	// Reason is a line for people; never empty.
	Reason string
	// StillRuns: an instance may still run. The driver could not stop it, or does not know whether an
	// earlier sidecar left one.
	StillRuns bool
}
