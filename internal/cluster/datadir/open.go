package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/internal/trusted"
)

const (
	dirMode fs.FileMode = 0o700
	// others are the mode bits of users other than the owner.
	others fs.FileMode = 0o077
)

// Dir is a data directory that this process locked.
type Dir struct {
	Layout
	file *os.File // the open directory, which holds the lock
}

// Open locks the directory, which it makes if it is missing. Open refuses a
// directory with foreign files, or with only some of its own, and changes nothing
// there: *RefusedError. The error for a directory that another process uses is a
// *LockedError. Close unlocks it.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", path, err)
	}
	if err := Layout(path).checkSpace(); err != nil {
		return nil, err
	}
	d, err := Lock(path)
	if err != nil {
		return nil, err
	}
	if err := d.checkFirst(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Lock locks the directory, which it makes if it is missing, and does not check its
// content. It is for a sidecar without a member, which keeps only its roles there. It
// returns the same errors as Open.
func Lock(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", path, err)
	}
	layout := Layout(path)
	if err := layout.Make(); err != nil {
		return nil, err
	}
	if found := trusted.Find(path); found != nil {
		return nil, layout.distrusted(found)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, layout.unreadable(path, err)
	}
	d := &Dir{Layout: layout, file: file}
	if err := d.lock(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := layout.checkOwners(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return d, nil
}

// Path returns the directory's absolute path.
func (d *Dir) Path() string { return string(d.Layout) }

// Lock returns the open directory. A child process that inherits it keeps the lock
// until it ends, also after this process.
func (d *Dir) Lock() *os.File { return d.file }

// Close unlocks the directory, unless a child that inherited the lock still runs.
func (d *Dir) Close() error { return d.file.Close() }

// Make makes the directory if it is missing.
func (l Layout) Make() error {
	info, err := os.Stat(string(l))
	switch {
	case err == nil && !info.IsDir():
		return &RefusedError{string(l), "is a file", "give --data-dir a directory"}
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return l.unreadable(string(l), err)
	}
	if err := os.MkdirAll(filepath.Dir(string(l)), 0o755); err != nil { //nolint:gosec // the directories above it are like /var/lib
		return l.unwritable(err)
	}
	if err := os.Mkdir(string(l), dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return l.unwritable(err)
	}
	return nil
}

// MakeDir makes a directory inside the data directory that only this user can
// read, unless it exists.
func MakeDir(path string) error {
	if err := os.Mkdir(path, dirMode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

func (d *Dir) lock() error {
	err := syscall.Flock(int(d.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return &LockedError{Path: d.Path(), PID: lockHolder(d.file)}
	case err != nil:
		return &RefusedError{d.Path(), "cannot be locked: " + err.Error(), "give --data-dir a directory on a local disk"}
	}
	return nil
}

// locksFile lists the locks of all processes; only Linux has it.
const locksFile = "/proc/locks"

// lockHolder returns the process that locked a file; 0 if the kernel does not say.
func lockHolder(f *os.File) int {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	locks, err := os.ReadFile(locksFile)
	if err != nil {
		return 0
	}
	// 1: FLOCK  ADVISORY  WRITE 4711 fd:01:1234567 0 EOF
	inode := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	for line := range strings.Lines(string(locks)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[5] != inode {
			continue
		}
		pid := 0
		if _, err := fmt.Sscan(fields[4], &pid); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}

// checkFirst refuses a directory that is not empty and contains no marker. An empty
// one, such as a service manager makes, is closed to other users.
func (d *Dir) checkFirst() error {
	names, err := d.names()
	if err != nil || slices.Contains(names, markerFile) {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isOwn(name) })
	switch {
	case len(names) == 0:
		if err := d.file.Chmod(dirMode); err != nil {
			return &RefusedError{d.Path(), "cannot be closed to other users: " + reason(err), "run the sidecar as the user that owns it"}
		}
		return nil
	case len(own) == len(names):
		return &RefusedError{
			d.Path(), fmt.Sprintf("has no %s, but has %s: it was deleted", markerFile, strings.Join(own, ", ")),
			d.restoreOrReplace(Marker{}),
		}
	}
	return &RefusedError{
		d.Path(), "has files that are not of Lockstep: " + shortList(names),
		"give --data-dir an empty directory, or one that does not exist yet",
	}
}

// names lists the directory without lost+found and files of an interrupted write. It also leaves out the
// roles, the unpacked program, a recording, a run and the reason of its end, which a sidecar without a member may keep too, and the
// snapshots, which a node keeps when it loses its member.
func (d *Dir) names() ([]string, error) {
	entries, err := os.ReadDir(d.Path())
	if err != nil {
		return nil, d.unreadable(d.Path(), err)
	}
	var out []string
	for _, e := range entries {
		if !isIncidental(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// IsOurs reports whether the directory exists, this user can read it, and it has no files of others.
func (l Layout) IsOurs() bool {
	entries, err := os.ReadDir(string(l))
	return err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return e.Name() != markerFile && !isOwn(e.Name()) && !isIncidental(e.Name())
	})
}

// Holder returns the process of the sidecar that uses the directory, with a member or without one; 0: none, or it is unknown.
func (l Layout) Holder() int {
	dir, err := os.Open(string(l))
	if err != nil {
		return 0
	}
	defer func() { _ = dir.Close() }()
	if pid := lockHolder(dir); pid != 0 {
		return pid
	}
	_, pid, _ := l.LastRun()
	return pid
}

// isIncidental reports whether a directory may have this file although it has no member.
func isIncidental(name string) bool {
	return slices.Contains([]string{
		markerFile + durable.TempSuffix, rolesFile, rolesFile + durable.TempSuffix, programDir, recordingFile, snapshotsDir,
		endedFile, endedFile + durable.TempSuffix, runningFile,
		"lost+found",
	}, name)
}

func isOwn(name string) bool {
	return slices.Contains([]string{"pki", "etcd", "etcd.left", membersFile, membersFile + durable.TempSuffix}, name)
}

// shortList joins a few names.
func shortList(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func (l Layout) unreadable(path string, err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return &RefusedError{string(l), "is not a directory", "give --data-dir a directory"}
	}
	return &RefusedError{path, "cannot be read: " + reason(err), "run this command as the user that owns it"}
}

func (l Layout) unwritable(err error) error {
	return &RefusedError{string(l), "cannot be made: " + reason(err), "give --data-dir a directory that this user can write to"}
}

// reason returns an error without the path, which the message names already.
func reason(err error) string {
	if pathError, is := errors.AsType[*fs.PathError](err); is {
		return pathError.Err.Error()
	}
	return err.Error()
}
