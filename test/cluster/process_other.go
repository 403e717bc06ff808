//go:build unix && !linux

package cluster

import "syscall"

// childAttr puts a child into its own process group. If this process is killed, its
// children keep running.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
