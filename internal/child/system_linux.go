package child

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithThread makes the kernel kill the child when the thread that starts it ends.
func endWithThread(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }

// waitEnded returns when a child has ended. It leaves the child unreaped, so that its number, which
// is also the number of its group, is not used again.
func waitEnded(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// groupAlive reports whether a process of the group runs. Zombies do not count: the leader is one
// during this call.
func groupAlive(group int) bool {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return false
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err == nil && inGroup(text, group) {
			return true
		}
	}
	return false
}

// inGroup parses "PID (NAME) STATE PPID GROUP ...". The name may contain spaces and parentheses.
func inGroup(stat []byte, group int) bool {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 3 || string(fields[0]) == "Z" || string(fields[0]) == "X" {
		return false
	}
	return string(fields[2]) == strconv.Itoa(group)
}
