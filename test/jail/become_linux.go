package jail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// refused begins the message of a process that is outside its jail.
	refused = "REFUSED TO START SYSTEMD: "
	// becomes is the message of a process that becomes systemd.
	becomes = "becomes systemd"
	// source is the name of every file system in memory that belongs to a jail.
	source  = "lockstep-jail"
	unitDir = "/etc/systemd/system"
	// packageUnits is where packages install their units.
	packageUnits = "/usr/lib/systemd/system"
	busSocket    = "/run/dbus/system_bus_socket"
	busConfig    = "/etc/dbus-1/jail.conf"
)

// Descriptors of the copy.
const (
	problemFD   = 3
	firstFileFD = 4
)

// become makes this process, which runs in namespaces of its own, the systemd of a jail.
func become(cfg Config) {
	// The cgroup namespace belongs to this thread, and to the program that it becomes.
	runtime.LockOSThread()
	problem := os.NewFile(problemFD, "problem")
	unix.CloseOnExec(problemFD)
	err := build(os.Getenv(rootVariable), cfg)
	if err == nil {
		if err = verify(); err == nil {
			err = dropCapabilities()
		}
		if err != nil {
			err = fmt.Errorf("%s%w", refused, err)
		}
	}
	if err == nil {
		_, err = problem.WriteString(becomes)
	}
	if err == nil {
		args := []string{"systemd", "--system", "--unit=default.target", "--show-status=no", "--crash-reboot=no", "--log-target=console"}
		err = syscall.Exec(systemdProgram(), args, []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "SYSTEMD_UNIT_PATH=" + unitDir + ":" + packageUnits, "SYSTEMD_GENERATOR_PATH=/none",
			// Without it, systemd would set up a machine.
			"container=" + source,
		})
	}
	_, _ = problem.WriteString(err.Error()) // who reads it skips or fails the test
	os.Exit(1)
}

// build makes a directory the root of this process: a file system in memory, with the machine's
// /usr in it.
func build(root string, cfg Config) error {
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("enter a cgroup namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := memory(root, "mode=0755"); err != nil {
		return err
	}
	for _, step := range []func(string, Config) error{programs, devices, kernel, settings} {
		if err := step(root, cfg); err != nil {
			return err
		}
	}
	if err := writeFiles(root, cfg); err != nil {
		return err
	}
	// The old root is mounted on top of the new one then, and is detached.
	err := os.Chdir(root)
	if err == nil {
		err = unix.PivotRoot(".", ".")
	}
	if err == nil {
		err = unix.Unmount(".", unix.MNT_DETACH)
	}
	if err == nil {
		err = os.Chdir("/")
	}
	if err != nil {
		return fmt.Errorf("leave the root of the machine: %w", err)
	}
	return nil
}

// memory mounts a file system in memory.
func memory(dir, options string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, dir, "tmpfs", unix.MS_NOSUID, options); err != nil {
		return fmt.Errorf("mount a tmpfs on %s: %w", dir, err)
	}
	return nil
}

// bind mounts a path of the machine, with all mounts below it.
func bind(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", from, to, err)
	}
	return nil
}

func readOnly(dir string) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(unix.AT_FDCWD, dir, unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("make %s read-only: %w", dir, err)
	}
	return nil
}

// programs mounts the programs of the machine, read-only, without the files that systemd,
// tmpfiles and D-Bus would read there.
func programs(root string, cfg Config) error {
	for _, dir := range programDirs {
		if err := programDir(root, dir, dir); err != nil {
			return err
		}
	}
	if cfg.Install {
		if err := errors.Join(ownBin(root), memory(root+"/usr/share", "mode=0755")); err != nil {
			return err
		}
	}
	for _, dir := range hiddenDirs {
		if info, err := os.Stat(root + dir); err != nil || !info.IsDir() {
			continue
		}
		if cfg.Install && slices.Contains(installDirs, dir) {
			if err := memory(root+dir, "mode=0755"); err != nil {
				return err
			}
			continue
		}
		if err := memory(root+dir, "mode=0755,size=4k"); err != nil {
			return err
		}
		if err := readOnly(root + dir); err != nil {
			return err
		}
	}
	return nil
}

// ownBin makes a /usr/bin into which packages can be installed, with links to the programs of the machine.
func ownBin(root string) error {
	const machine = "/machine"
	if err := programDir(root, "/usr/bin", machine); err != nil {
		return err
	}
	entries, err := os.ReadDir("/usr/bin")
	if err != nil {
		return err
	}
	if err := memory(root+"/usr/bin", "mode=0755"); err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(machine, e.Name()), filepath.Join(root, "usr/bin", e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// programDir mounts one directory at a path, or makes the link that it is on the machine.
func programDir(root, dir, at string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(dir)
		if err != nil {
			return err
		}
		return os.Symlink(target, root+at)
	}
	if err := os.Mkdir(root+at, 0o755); err != nil {
		return err
	}
	if err := bind(dir, root+at); err != nil {
		return err
	}
	return readOnly(root + at)
}

var (
	programDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}
	// hiddenDirs would be read by systemd, or by programs that its units start.
	hiddenDirs = []string{
		"/usr/lib/systemd/system", "/usr/lib/systemd/system-generators", "/usr/lib/systemd/system-environment-generators",
		"/usr/lib/systemd/system-preset", "/usr/lib/systemd/system-shutdown", "/usr/lib/systemd/system.conf.d", "/usr/lib/tmpfiles.d",
		"/usr/lib/sysctl.d", "/usr/lib/udev", "/usr/lib/modules", "/usr/share/dbus-1/system-services",
	}
	// installDirs are those into which packages are installed, with Config.Install: in memory, and empty except for
	// links to programs of the machine.
	installDirs = []string{"/usr/bin", "/usr/share", packageUnits}
	// memoryDirs are file systems in memory, besides the root.
	memoryDirs = []string{"/tmp", "/run", "/run/lock", "/dev", "/dev/shm", "/usr/local"}
	nodes      = []string{"null", "zero", "full", "random", "urandom", "tty"}
)

// devices mounts the devices that every program may use.
func devices(root string, _ Config) error {
	for _, dir := range memoryDirs {
		mode := "mode=0755"
		if dir == "/tmp" || dir == "/dev/shm" {
			mode = "mode=1777"
		}
		if err := memory(root+dir, mode); err != nil {
			return err
		}
	}
	mounts := map[string]string{"console": os.Getenv(ttyVariable)}
	for _, name := range nodes {
		mounts[name] = "/dev/" + name
	}
	for name, from := range mounts {
		to := filepath.Join(root, "dev", name)
		if err := os.WriteFile(to, nil, 0o600); err != nil {
			return err
		}
		if err := bind(from, to); err != nil {
			return err
		}
	}
	pts := root + "/dev/pts"
	if err := os.Mkdir(pts, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("devpts", pts, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,mode=0600,ptmxmode=0666"); err != nil {
		return fmt.Errorf("mount devpts: %w", err)
	}
	return os.Symlink("pts/ptmx", root+"/dev/ptmx")
}

// kernel mounts the kernel's file systems for this process's namespaces.
func kernel(root string, _ Config) error {
	for _, m := range []struct {
		kind, dir string
		flags     uintptr
	}{
		{"proc", "/proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"sysfs", "/sys", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RDONLY},
		{"cgroup2", "/sys/fs/cgroup", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	} {
		if m.kind != "cgroup2" { // its directory is one of sysfs
			if err := os.Mkdir(root+m.dir, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(m.kind, root+m.dir, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.kind, err)
		}
	}
	for _, path := range []string{"/proc/sys", "/proc/sysrq-trigger"} {
		if _, err := os.Stat(root + path); errors.Is(err, os.ErrNotExist) {
			continue // it does not exist with every kernel
		}
		if err := bind(root+path, root+path); err != nil {
			return err
		}
		if err := readOnly(root + path); err != nil {
			return err
		}
	}
	return nil
}

// settings writes the files that programs read about their machine.
func settings(root string, _ Config) error {
	cache, err := os.ReadFile("/etc/ld.so.cache")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for path, content := range map[string]string{
		"/etc/passwd":      "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
		"/etc/group":       "root:x:0:\nnogroup:x:65534:\n",
		"/etc/hostname":    "jail\n",
		"/etc/hosts":       "127.0.0.1 localhost\n",
		"/etc/machine-id":  strings.Repeat("1", 32) + "\n",
		"/etc/os-release":  "ID=jail\nNAME=jail\n",
		"/etc/ld.so.cache": string(cache),
		busConfig: `<busconfig><type>system</type><listen>unix:path=` + busSocket + `</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/></policy>
</busconfig>
`,
	} {
		if err := write(root+path, content); err != nil {
			return err
		}
	}
	return os.MkdirAll(root+"/root", 0o700)
}

func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

// standardUnits start D-Bus, and nothing else.
var standardUnits = map[string]string{
	"default.target":  "[Unit]\nWants=dbus.socket dbus.service\nAfter=dbus.service\n",
	"sysinit.target":  "[Unit]\nDefaultDependencies=no\n",
	"basic.target":    "[Unit]\nDefaultDependencies=no\n",
	"sockets.target":  "[Unit]\nDefaultDependencies=no\n",
	"shutdown.target": "[Unit]\nDefaultDependencies=no\n",
	"dbus.socket":     "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=" + busSocket + "\n",
	"dbus.service": "[Unit]\nDefaultDependencies=no\nRequires=dbus.socket\nStartLimitIntervalSec=0\n[Service]\nType=notify\nNotifyAccess=main\n" +
		"ExecStart=/usr/bin/dbus-daemon --config-file=" + busConfig + " --address=systemd: --nofork --nopidfile --systemd-activation\n",
}

// writeFiles writes the units, and copies this program to where it is on the machine, and files.
func writeFiles(root string, cfg Config) error {
	for _, units := range []map[string]string{standardUnits, cfg.Units} {
		for name, content := range units {
			path := filepath.Join(root+unitDir, name)
			var err error
			if content == Masked {
				err = os.Symlink("/dev/null", path)
			} else {
				err = write(path, content)
			}
			if err != nil {
				return err
			}
		}
	}
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer program.Close()
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	if err := copyProgram(root+path, program); err != nil {
		return err
	}
	for i, inside := range sortedKeys(cfg.Files) {
		unix.CloseOnExec(firstFileFD + i)
		f := os.NewFile(uintptr(firstFileFD+i), inside)
		if err := errors.Join(copyProgram(root+inside, f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func copyProgram(to string, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// dropCapabilities drops for good the capabilities that no unit of a test needs. Inside the user
// namespace, none of them was one over the machine.
func dropCapabilities() error {
	for _, c := range []uintptr{
		unix.CAP_SYS_TIME, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYS_BOOT, unix.CAP_SYSLOG, unix.CAP_MKNOD, unix.CAP_WAKE_ALARM,
		unix.CAP_MAC_ADMIN, unix.CAP_MAC_OVERRIDE, unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PACCT,
	} {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	return nil
}
