package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// minSpace is the space that a new member needs on its disk: etcd allocates two
// files of its log at once, and the database grows up to its quota later.
const minSpace = 256 << 20

// checkSpace refuses a disk that is too small for a new member. It never refuses a
// directory with a marker: etcd waits for space there.
func (l Layout) checkSpace() error {
	if _, err := os.Lstat(l.Marker()); err == nil {
		return nil
	}
	existing := string(l)
	for {
		if _, err := os.Stat(existing); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		existing = filepath.Dir(existing)
	}
	free, err := Layout(existing).FreeSpace()
	if err != nil {
		return l.unreadable(existing, err)
	}
	if free < minSpace {
		return &RefusedError{
			string(l), fmt.Sprintf("is on a disk with %d MiB free, and a member needs %d MiB", free>>20, minSpace>>20),
			"free space there, or give --data-dir a directory on another disk",
		}
	}
	return nil
}

// FreeSpace returns how many bytes are free on the disk of the directory.
func (l Layout) FreeSpace() (int64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(string(l), &disk); err != nil {
		return 0, err
	}
	return int64(disk.Bavail) * disk.Bsize, nil //nolint:unconvert // the types differ between systems
}

// walSpace is the space that etcd allocates at once for its log.
const walSpace = 64 << 20

// FullDisk names the disk and the remedy if it is too full for a member that started
// before; empty: there is enough space, or the space is unknown.
func (l Layout) FullDisk() string {
	free, err := l.FreeSpace()
	if err != nil || free >= walSpace {
		return ""
	}
	return fmt.Sprintf("the disk of %q has %d MiB free: free space there, the member goes on by itself", string(l), free>>20)
}
