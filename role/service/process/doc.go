// Package process runs a service as a child process of the sidecar
// (docs/roles.md#process). It owns the processes that it starts: their group, their output,
// how they are stopped, and how they ended.
//
// No orphans: each child has a process group of its own, which gets SIGTERM, and SIGKILL when
// the time to stop has passed, or when its leader has ended. If the sidecar itself is killed
// with SIGKILL, the kernel kills the children (PR_SET_PDEATHSIG). The kernel does so when the
// thread ends that started a child, not when the process ends, and Go ends threads: so one
// goroutine starts all children, and it keeps its thread (Starter).
//
// What this does not reach: a process that a child moved out of its group (setsid), if the child
// does not stop it; the children of a child when the sidecar is killed with SIGKILL; and a program
// that is setuid, setgid or has file capabilities then. The service manager, or the container, in
// which the sidecar runs ends these: for systemd with KillMode=mixed (docs/roles.md#kill-mode).
//
// Each child has two goroutines, which end with Driver.Run: one waits for its end, one reads
// its output.
package process
