package turns_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// This file reboots machines. Each is a PID namespace with a boot ID of its own. Its first process runs the sidecar, and
// stops it when the program reboot says so. When the first process ends, the kernel kills all others of the machine.

const (
	machineWord = "machine" // the first argument of the program that starts a machine
	initWord    = "init"    // the same of its first process
	rebootName  = "reboot"  // the name of the program that reboots it
	// bootIDName and powerName are files of a machine: its boot ID, and a pipe into which reboot writes.
	bootIDName = "boot_id"
	powerName  = "power"
)

// machineProgram runs this program if it is one of a machine, or its unit.
func machineProgram(args []string) (code int, is bool) {
	var err error
	switch {
	case filepath.Base(args[0]) == rebootName:
		err = os.WriteFile(filepath.Join(filepath.Dir(args[0]), powerName), []byte("off"), 0o600)
	case len(args) > 3 && args[1] == machineWord:
		code, err = startMachine(args[2], args[3:])
	case len(args) > 3 && args[1] == initWord:
		code, err = runMachine(args[2], args[3:])
	case len(args) > 2 && args[1] == apiWord:
		err = serveAPI(args[2])
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code, true
}

// startMachine starts the first process of a machine, and ends with it.
func startMachine(dir string, sidecar []string) (int, error) {
	runtime.LockOSThread() // the kernel kills the machine when this thread ends
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, append([]string{initWord, dir}, sidecar...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return runUntilStopped(cmd, nil)
}

// runMachine is the first process of a machine.
func runMachine(dir string, sidecar []string) (int, error) {
	if os.Getpid() != 1 {
		return 0, errors.New("this is not the first process of a machine")
	}
	for _, m := range []struct {
		from, to, kind string
		flags          uintptr
	}{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{filepath.Join(dir, bootIDName), "/proc/sys/kernel/random/boot_id", "", syscall.MS_BIND},
	} {
		if err := syscall.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			return 0, fmt.Errorf("mount %s: %w", m.to, err)
		}
	}
	off := make(chan struct{})
	go func() {
		_, _ = os.ReadFile(filepath.Join(dir, powerName)) // it has ended when reboot wrote
		close(off)
	}()
	return runUntilStopped(exec.Command(sidecar[0], sidecar[1:]...), off)
}

// runUntilStopped runs a command, and stops it on SIGTERM, or when off closes. It returns its exit code.
func runUntilStopped(cmd *exec.Cmd, off <-chan struct{}) (int, error) {
	stop := make(chan os.Signal, 1) // one is enough
	signal.Notify(stop, syscall.SIGTERM)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		select {
		case <-stop:
		case <-off:
		}
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}()
	_ = cmd.Wait() // the code says it
	return cmd.ProcessState.ExitCode(), nil
}

// machines are the directories of machines, by node.
type machines map[string]string

// add lets the sidecar of a node run on a machine of its own.
func (m machines) add(t *testing.T, n *node) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = errors.Join(os.Symlink(self, filepath.Join(dir, rebootName)), syscall.Mkfifo(filepath.Join(dir, powerName), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	m[n.id] = dir
	m.newBoot(t, n, 1)
	n.cfg.Wrapper = []string{self, machineWord, dir}
}

// newBoot gives the machine of a node the ID of its next boot.
func (m machines) newBoot(t *testing.T, n *node, number int) {
	t.Helper()
	id := fmt.Sprintf("%08d-0000-4000-8000-000000000000\n", number)
	if err := os.WriteFile(filepath.Join(m[n.id], bootIDName), []byte(id), 0o600); err != nil {
		t.Error(err)
	}
}

// turnOfReboot types sidecar turn -- reboot on the machine of a node.
func (w *world) turnOfReboot(n *node, dir string) *typed {
	w.Helper()
	first, err := n.sidecar.Children()
	if err != nil || len(first) != 1 {
		w.Fatalf("got %v, %v, want the first process of the machine", first, err)
	}
	return w.typed([]string{
		"nsenter", "--target=" + strconv.Itoa(first[0]), "--pid", "--mount", "--",
		filepath.Join(cluster.Assets(w, "sidecar"), "sidecar"), "turn", "--server=http://" + n.cfg.Listen, "--drain=1ms", "--", filepath.Join(dir, rebootName),
	})
}

// reboot is typed on all machines at the same time. One after another reboots, while all others serve: the turn ends when
// the machine is back, and its node serves. The command itself is killed with the machine.
func TestTurns_reboot(t *testing.T) {
	if out, err := exec.Command("unshare", "--pid", "--mount-proc", "--fork", "nsenter", "--version").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: needs Linux, unshare, nsenter, and PID namespaces as root: %v: %s", err, out)
	}
	of := machines{}
	w := newWorld(t, func(n *node) { of.add(t, n) })
	stop := w.followServing()
	var reboots sync.WaitGroup
	for _, n := range w.nodes {
		c := w.turnOfReboot(n, of[n.id])
		reboots.Go(func() {
			cluster.Await(t, n.id+" to reboot", func(context.Context) error {
				select {
				case <-n.sidecar.Done():
					return nil
				default:
					return errors.New("it runs")
				}
			})
			if code, out := c.end(); code != -1 {
				t.Errorf("%s: sidecar turn ended with %d before the machine did: %s", n.id, code, out)
			}
			of.newBoot(t, n, 2)
			w.start(n)
		})
	}
	reboots.Wait()
	if t.Failed() {
		return // nothing that follows would happen
	}
	for _, n := range w.nodes {
		cluster.Await(t, n.id+" to serve", n.sidecar.Readyz)
	}
	w.awaitPrinted([]string{"turn", "status"}, "no node has a turn")
	stop()
}
