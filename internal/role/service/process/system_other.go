//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// attributes returns the attributes of each child. Only Linux kills the child of a process that was
// killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// waitEnded returns when a child has ended.
func waitEnded(cmd *exec.Cmd) {
	// cmd.ProcessState contains the outcome.
	_ = cmd.Wait()
}

// groupAlive cannot be answered here: finish kills the rest of a group after its leader ended.
func groupAlive(int) bool { return false }
