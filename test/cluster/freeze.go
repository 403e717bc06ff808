package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Freeze stops a process that leads a process group, until thaw, also while its parent ends. The kernel continues a
// stopped group as soon as no process of it has a parent outside of the group. So a child of this process joins the
// group. It needs Linux.
func Freeze(t testing.TB, pid int) (thaw func()) {
	t.Helper()
	companion := exec.Command("sleep", "infinity")
	companion.SysProcAttr = childAttr()
	companion.SysProcAttr.Pgid = pid
	started := make(chan error)
	starter() <- startRequest{companion, started}
	if err := <-started; err != nil {
		t.Fatalf("freeze the process %d: %v", pid, err)
	}
	t.Cleanup(func() {
		// They report that it was killed.
		_ = companion.Process.Kill()
		_ = companion.Wait()
	})
	send := func(signal syscall.Signal) {
		if err := syscall.Kill(pid, signal); err != nil {
			t.Errorf("send %s to the process %d: %v", signal, pid, err)
		}
	}
	send(syscall.SIGSTOP)
	Await(t, fmt.Sprintf("the process %d to stop", pid), func(context.Context) error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && !strings.Contains(string(stat), ") T ") {
			err = fmt.Errorf("it runs: %s", stat)
		}
		return err
	})
	return func() { send(syscall.SIGCONT) }
}
