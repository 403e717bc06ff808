//go:build !linux

package trusted

// readOnly reports nothing: only Linux has pods.
func readOnly(string) bool { return false }

// writers lists nothing: the lists of other systems differ.
func writers(string) []writer { return nil }

// outside reports nothing either.
func outside(int) bool { return false }
