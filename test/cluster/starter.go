package cluster

import (
	"os/exec"
	"runtime"
	"sync"
)

// StartCommand starts cmd as a child in a process group of its own. On Linux the
// kernel kills the child when this program ends, even when it crashes. Elsewhere
// the child survives a crash. Start every long-lived child with it.
func StartCommand(cmd *exec.Cmd) error {
	cmd.SysProcAttr = childAttr()
	started := make(chan error)
	starter() <- startRequest{cmd, started}
	return <-started
}

// startRequest asks the starter to start cmd. The answer is the result of cmd.Start.
type startRequest struct {
	cmd     *exec.Cmd
	started chan<- error
}

// starter returns the channel to the one goroutine that starts every child.
//
// The kernel sends Pdeathsig when the thread that started the child ends, not
// when the process does (prctl(2), golang/go issue 27505). Go ends a thread when
// a goroutine returns while it is locked to that thread. Started from any thread,
// a child would therefore be killed at random:
//
//  1. A goroutine starts a child. The scheduler then parks its thread.
//  2. Another goroutine is scheduled on the thread, locks it, and returns.
//  3. Go ends the thread, and the kernel kills the child of a living program.
//
// The starter locks its own thread and never returns, so its thread lives as long
// as the program. It is the one goroutine here that nothing waits for.
var starter = sync.OnceValue(func() chan<- startRequest {
	requests := make(chan startRequest)
	go startAll(requests)
	return requests
})

func startAll(requests <-chan startRequest) {
	runtime.LockOSThread()
	for r := range requests {
		r.started <- r.cmd.Start()
	}
}
