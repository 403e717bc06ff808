// Package child starts processes, reads their output, stops them and explains their end. It owns the
// process groups of all children of the sidecar: services, programs that probe them, and the etcd
// member. Its users decide which output matters, and when a child starts and stops.
//
// Each child is the leader of a process group of its own, which Finish kills: Ctrl-C in a terminal
// reaches the sidecar only, which stops its children in order. If the sidecar itself is killed with
// SIGKILL, the kernel kills the children of a Starter (PR_SET_PDEATHSIG). The kernel does so when the
// thread that started a child ends, not when the process ends, and Go ends threads: so one goroutine
// starts all these children, and keeps its thread.
//
// Each child needs a goroutine that waits for its end, and one for each reader of its output, which
// end in Finish.
package child
