//go:build !lockstep_steps && !lockstep_trace

package main

// testVariables are read only by programs that are built for tests.
var testVariables []string
