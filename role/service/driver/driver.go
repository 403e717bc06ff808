// Package driver has the interface between the supervisor of services and what runs them:
// packages process, systemd and staticpod (docs/roles.md#drivers). It owns no state and starts
// no goroutine.
package driver

import "context"

// Driver runs one service. Its methods may be called from many goroutines, except that
// there is one Run at a time.
type Driver interface {
	// Run starts one instance and returns when it has ended: by itself, or because it was
	// stopped when ctx ended. No instance that an earlier sidecar started runs beside it. If
	// ctx has ended before, Run starts nothing, and stops what runs. It gives that up after a
	// time that the stop timeout bounds.
	//
	// It calls running when the instance runs, and again each time that something else than
	// this sidecar, as systemd, has replaced the instance by a new one. It never calls it
	// before the instance before has ended: a probe that succeeds after the call has reached
	// the new one.
	Run(ctx context.Context, running func()) Exit
	// LastLines returns the newest lines that the service wrote, the oldest first; empty: the
	// driver does not see them.
	LastLines() []string
}

// Exit is how an instance ended.
type Exit struct {
	// Reason is a line for people; never empty.
	Reason string
	// StillRuns: an instance may still run. It could not be stopped, or the driver does not know
	// what an earlier sidecar left.
	StillRuns bool
}
