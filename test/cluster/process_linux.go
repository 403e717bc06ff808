package cluster

import "syscall"

// childAttr puts a child into its own process group. It makes the kernel kill the
// child when the thread that started it ends; see starter.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
