//go:build lockstep_steps || lockstep_trace

package main

// testVariables are those that a program which is built for tests reads besides the
// variables of flags.
var testVariables = []string{
	"LOCKSTEP_EXIT_AFTER_STEP", "LOCKSTEP_STOP_AFTER_STEP", "LOCKSTEP_EVICT_AFTER", "LOCKSTEP_TRACE",
}
