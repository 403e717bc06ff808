package jail

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is a line of /proc/self/mountinfo.
type mount struct {
	root, point, options, kind, source string
}

func readMounts() ([]mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []mount
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 6 || len(right) < 2 {
			return nil, fmt.Errorf("/proc/self/mountinfo: %q has too few fields", line)
		}
		out = append(out, mount{left[3], left[4], "," + left[5] + ",", right[0], right[1]})
	}
	return out, nil
}

// verify returns why this process is not in a jail: it reports the first thing from which
// a program could reach the machine.
func verify() error {
	ids, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return err
	}
	if got, want := strings.Fields(string(ids)), fmt.Sprint(0, firstUser, users); strings.Join(got, " ") != want {
		return fmt.Errorf("its users are those of the machine: uid_map is %q, want %q", got, want)
	}
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if !m.expected() {
			return fmt.Errorf("%s is mounted on %s, from %s %s, %s", m.kind, m.point, m.source, m.root, m.options)
		}
	}
	for _, dir := range append([]string{"/"}, memoryDirs...) {
		if !slices.ContainsFunc(mounts, func(m mount) bool { return m.point == dir && m.inMemory() }) {
			return fmt.Errorf("%s is not a tmpfs of its own", dir)
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			return err
		}
		if fs.Type != unix.TMPFS_MAGIC {
			return fmt.Errorf("%s is not in memory: its type is %x", dir, fs.Type)
		}
	}
	// The root of all cgroups contains no such file.
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.type"); err != nil {
		return fmt.Errorf("its cgroup is that of the machine: %w", err)
	}
	return stockUnits()
}

func (m mount) readOnly() bool { return strings.Contains(m.options, ",ro,") }

func (m mount) inMemory() bool { return m.kind == "tmpfs" && m.source == source }

// expected reports whether a jail may contain a mount.
func (m mount) expected() bool {
	switch {
	case m.readOnly():
		return true
	case m.inMemory():
		return m.point == "/" || slices.Contains(memoryDirs, m.point) || slices.Contains(installDirs, m.point)
	case m.kind == "proc":
		return m.point == "/proc"
	case m.kind == "cgroup2":
		return m.point == "/sys/fs/cgroup"
	case m.kind == "devpts":
		return m.point == "/dev/pts" || m.point == "/dev/console"
	}
	name, is := strings.CutPrefix(m.point, "/dev/")
	return is && slices.Contains(nodes, name) && m.root == "/"+name
}

// stockUnits returns an error if systemd would find the units of the distribution.
func stockUnits() error {
	dirs := slices.Clone(hiddenDirs)
	for _, dir := range hiddenDirs {
		dirs = append(dirs, strings.TrimPrefix(dir, "/usr")) // where /lib is no link
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err == nil && len(entries) > 0 {
			err = fmt.Errorf("%s has %d files", dir, len(entries))
		} else if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
