//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"
)

// endWithThread does nothing: only Linux kills the child of a process that was killed.
func endWithThread(*syscall.SysProcAttr) {}

// waitEnded returns when a child has ended.
func waitEnded(cmd *exec.Cmd) {
	// cmd.ProcessState contains the outcome.
	_ = cmd.Wait()
}

// groupAlive cannot be answered here: finish kills the rest of a group after its leader ended.
func groupAlive(int) bool { return false }
