//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// attributes are those of each child. Only Linux kills the child of a process that was killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// waitEnded returns when a child has ended.
func waitEnded(cmd *exec.Cmd) {
	// The outcome is in cmd.ProcessState.
	_ = cmd.Wait()
}

// groupAlive is not known here: what is left of a group is killed when its leader has ended.
func groupAlive(int) bool { return false }
