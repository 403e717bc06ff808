//go:build lockstep_steps || lockstep_trace

package main

// testVariables are the variables that only a program built for tests reads, besides the variables of flags.
var testVariables = []string{
	"LOCKSTEP_EXIT_AFTER_STEP", "LOCKSTEP_STOP_AFTER_STEP", "LOCKSTEP_EVICT_AFTER", "LOCKSTEP_PROMOTE_AFTER", "LOCKSTEP_TRACE", "LOCKSTEP_UNRECORDED",
}
