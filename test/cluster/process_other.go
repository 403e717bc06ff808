//go:build unix && !linux

package cluster

import "syscall"

// childAttr puts a child into a process group of its own. Where this process is
// killed, its children live on.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
