package cluster

import "syscall"

// childAttr puts a child into a process group of its own, and has the kernel
// kill it when this process dies, however that happens.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
