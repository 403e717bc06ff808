//go:build !linux

package turns_test

// machineProgram: machines need Linux.
func machineProgram([]string) (code int, is bool) { return 0, false }
