package cluster

import "syscall"

// ChildAttr returns how children have to be started so that none outlives this
// process (on Linux), for a program that starts children of its own.
func ChildAttr() *syscall.SysProcAttr { return childAttr() }
