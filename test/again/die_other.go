//go:build unix && !linux

package again

import "syscall"

// dieWithParent does nothing: only Linux can.
func dieWithParent(*syscall.SysProcAttr) {}
