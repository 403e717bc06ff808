// Package process runs a service as a child process of the sidecar (docs/roles.md#process). It owns
// the processes that it starts, and their output. Package child has their group, their start and
// their end.
//
// Not covered: a process that a child moved out of its group (setsid), if the child does not stop
// it; and, when the sidecar is killed with SIGKILL, the children of a child, and a program with
// setuid, setgid or file capabilities. The service manager or the container of the sidecar ends
// these: systemd with KillMode=mixed (docs/roles.md#kill-mode).
package process
