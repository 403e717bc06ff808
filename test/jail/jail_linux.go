// Package jail gives a test a real systemd, as the first process of a machine of its own: with
// namespaces and users of its own, on a file system in memory. It needs Linux, root, systemd and
// dbus-daemon; elsewhere a test is skipped loudly.
//
// A systemd that reached the machine would do harm: with the units of a distribution it empties
// /tmp, for example. So it cannot. Its users are none of the machine, not even its root user. It
// sees nothing of the machine but /usr, read-only, and runs the units of the test alone. Before it
// starts, and again before the test goes on, every mount is compared with the list of allowed ones
// (verify).
//
//	func TestUnit(t *testing.T) {
//		if !jail.Enter(t, jail.Config{Units: map[string]string{"a.service": "[Service]\nExecStart=sleep infinity\n"}}) {
//			return
//		}
//		... // this process is in the jail, as its root user, and uses the jail's system bus
//	}
package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/test/again"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/logs"
)

// Config is a jail.
type Config struct {
	// Units are the files in /etc/systemd/system: contents by names. A file whose content is
	// Masked is a link to /dev/null. The targets of the start and D-Bus are added.
	Units map[string]string
	// Files are copied into the jail: from where, by their paths inside. They can be executed.
	Files map[string]string
	// Install: packages can be installed. /usr/share is empty then.
	Install bool
}

// Masked is the content of a unit that is masked.
const Masked = "masked"

const (
	// variable names the test whose jail a process becomes.
	variable     = "LOCKSTEP_TEST_JAIL"
	rootVariable = "LOCKSTEP_TEST_JAIL_ROOT"
	ttyVariable  = "LOCKSTEP_TEST_JAIL_TTY"

	// firstUser is the root user of the jail, for the machine. No machine uses it.
	firstUser = 1_000_000_000
	users     = 1 << 16
	// starts is how long systemd may take to start, on a machine that is busy.
	starts = time.Minute
)

// Enter runs the test that calls it again, as a process in a jail, and passes its result on. It
// returns false then, and the caller returns. In the new process it returns true. The first process
// of the jail reaches it too, so a test calls it before it does anything else.
func Enter(t *testing.T, cfg Config) bool {
	t.Helper()
	if os.Getenv(variable) == t.Name() {
		become(cfg) // and never return
	}
	if again.Inside(t) {
		awaitSystemd(t)
		return true
	}
	if problem := missing(); problem != "" {
		t.Skip("SKIPPED, NOT TESTED: a real systemd needs Linux, root, a mounted cgroup2, systemd and dbus-daemon " +
			"(Debian: apt-get install --no-install-recommends systemd dbus): " + problem)
	}
	// The kernel ends the jail with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	j := newJail(t)
	j.start(cfg)
	wrapper := []string{
		"nsenter", "--target=" + strconv.Itoa(j.cmd.Process.Pid), "--wd=/",
		"--user", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--",
	}
	if err := again.Run(t, syscall.SysProcAttr{Setpgid: true}, wrapper...); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Logf("the console of the jail:\n%s", j.console)
	}
	return false
}

// missing returns why there can be no jail here; empty: there can.
func missing() string {
	if os.Getuid() != 0 {
		return "this is not root"
	}
	if systemdProgram() == "" {
		return "there is no systemd"
	}
	for _, program := range []string{"dbus-daemon", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			return err.Error()
		}
	}
	if _, err := ownCgroup(); err != nil {
		return err.Error()
	}
	return ""
}

// systemdProgram is systemd itself; empty: there is none.
func systemdProgram() string {
	for _, path := range []string{"/usr/lib/systemd/systemd", "/lib/systemd/systemd"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// ownCgroup is the directory of the cgroup, of version 2, that this process is in.
func ownCgroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := readMounts()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		path, is := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !is {
			continue
		}
		for _, m := range mounts {
			if m.kind == "cgroup2" && m.root == "/" {
				return filepath.Join(m.point, path), nil
			}
		}
	}
	return "", errors.New("cgroup2 is not mounted")
}

// jail is one that is started.
type jail struct {
	*testing.T
	root    string // a directory of the machine, on which the jail mounts its own root
	cgroup  string
	cmd     *exec.Cmd
	console *logs.Buffer
}

func newJail(t *testing.T) *jail {
	t.Helper()
	own, err := ownCgroup()
	if err != nil {
		t.Fatal(err)
	}
	// The user of the jail must reach it, unlike the directory of t.TempDir.
	root, err := os.MkdirTemp("", "jail")
	if err != nil {
		t.Fatal(err)
	}
	j := &jail{T: t, root: root, cgroup: filepath.Join(own, "lockstep-test-"+filepath.Base(root)), console: &logs.Buffer{}}
	t.Cleanup(func() { _ = os.Remove(root) })
	if err := errors.Join(os.Chmod(root, 0o755), os.Mkdir(j.cgroup, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.removeCgroup)
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(j.cgroup, name), firstUser, firstUser); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// removeCgroup kills the processes in the cgroup, and removes it.
func (j *jail) removeCgroup() {
	if err := os.WriteFile(filepath.Join(j.cgroup, "cgroup.kill"), []byte("1"), 0); err != nil {
		j.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.Context()), starts)
	defer cancel()
	err := cluster.Poll(ctx, func(context.Context) error {
		var dirs []string
		_ = filepath.WalkDir(j.cgroup, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			if err := os.Remove(dir); err != nil { // its processes may still be about to end
				return err
			}
		}
		return nil
	})
	if err != nil {
		j.Error(err)
	}
}

// start starts a copy of this process, which becomes the systemd of the jail.
func (j *jail) start(cfg Config) {
	j.Helper()
	cgroup, err := os.Open(j.cgroup)
	if err != nil {
		j.Fatal(err)
	}
	defer cgroup.Close()
	problem, problemWriter, err := os.Pipe()
	if err != nil {
		j.Fatal(err)
	}
	defer problem.Close()
	// The path of a test's program is closed to other users. This link is not.
	j.cmd = exec.Command("/proc/self/exe", "-test.run=^"+j.Name()+"$")
	j.cmd.Env = append(os.Environ(), variable+"="+j.Name(), rootVariable+"="+j.root, ttyVariable+"="+j.openConsole())
	j.cmd.ExtraFiles = append(j.cmd.ExtraFiles, problemWriter)
	for _, inside := range sortedKeys(cfg.Files) {
		f, err := os.Open(cfg.Files[inside])
		if err != nil {
			j.Fatal(err)
		}
		defer f.Close()
		j.cmd.ExtraFiles = append(j.cmd.ExtraFiles, f)
	}
	ids := []syscall.SysProcIDMap{{HostID: firstUser, Size: users}}
	j.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true, Credential: &syscall.Credential{},
		UseCgroupFD: true, CgroupFD: int(cgroup.Fd()), Pdeathsig: syscall.SIGKILL, Setsid: true,
	}
	err = j.cmd.Start()
	_ = problemWriter.Close() // the copy holds it
	if err != nil {
		j.Skipf("SKIPPED, NOT TESTED: a real systemd needs namespaces and a cgroup of its own: %v", err)
	}
	j.Cleanup(func() {
		_ = j.cmd.Process.Kill() // it may have ended
		_ = j.cmd.Wait()         // by SIGKILL
	})
	// The pipe ends when the copy becomes systemd, or with the reason why it cannot.
	text, err := io.ReadAll(problem)
	switch {
	case err != nil:
		j.Fatal(err)
	case bytes.HasPrefix(text, []byte(refused)):
		j.Fatalf("%s", text)
	case len(text) == 0:
		j.Fatal("the test did not reach Enter again: call it first")
	case string(text) != becomes:
		j.Skipf("SKIPPED, NOT TESTED: a real systemd cannot be kept away from this machine: %s", text)
	}
}

// openConsole opens a terminal for the output of systemd, and returns its path.
func (j *jail) openConsole() string {
	j.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		j.Fatal(err)
	}
	path, err := unlock(terminal)
	if err != nil {
		j.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(j.console, terminal) // until the last process of the jail has ended
	}()
	j.Cleanup(func() {
		_ = terminal.Close() // it was only read from
		<-done
	})
	return path
}

// unlock returns the path of the other end of a terminal, which the user of the jail may open.
func unlock(terminal *os.File) (path string, err error) {
	raw, err := terminal.SyscallConn() // with Fd, Close would wait for a read
	if err != nil {
		return "", err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		number, err := unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		path = fmt.Sprintf("/dev/pts/%d", number)
		failed = errors.Join(err, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
	})
	if err = errors.Join(err, failed); err != nil {
		return "", err
	}
	return path, os.Chown(path, firstUser, firstUser)
}

// awaitSystemd waits until systemd started all its units, and verifies the jail again.
func awaitSystemd(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), starts)
	defer cancel()
	err := cluster.Poll(ctx, func(ctx context.Context) error {
		conn, err := dbus.NewSystemConnectionContext(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		state, err := conn.SystemStateContext(ctx)
		if err == nil && state.Value.String() != `"running"` {
			err = fmt.Errorf("systemd is %s", state.Value)
		}
		return err
	})
	if err == nil {
		err = verify()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
