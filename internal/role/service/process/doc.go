// Package process runs a service as a child process of the sidecar (docs/roles.md#process). It owns
// the processes that it starts: their group, their output, their stop, and the reason of their end.
//
// No orphans: each child runs in its own process group, which gets SIGTERM, and SIGKILL after the
// stop timeout or when its leader ends. If the sidecar itself is killed with SIGKILL, the kernel
// kills the children (PR_SET_PDEATHSIG). The kernel does so when the thread that started a child
// ends, not when the process ends, and Go ends threads: so one goroutine starts all children, and
// keeps its thread (Starter).
//
// Not covered: a process that a child moved out of its group (setsid), if the child does not stop
// it; and, when the sidecar is killed with SIGKILL, the children of a child, and a program with
// setuid, setgid or file capabilities. The service manager or the container of the sidecar ends
// these: systemd with KillMode=mixed (docs/roles.md#kill-mode).
//
// Each child needs two goroutines, which end with Driver.Run: one waits for its end, one reads its
// output.
package process
