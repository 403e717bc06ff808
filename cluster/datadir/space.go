package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// minSpace is what a new member needs on its disk: etcd allocates two files of its
// log at once, and the database grows up to its quota later.
const minSpace = 256 << 20

// checkSpace refuses a disk that is too small for a new member. A directory that has
// a marker is never refused for it: etcd waits for space there.
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
	var disk unix.Statfs_t
	if err := unix.Statfs(existing, &disk); err != nil {
		return l.unreadable(existing, err)
	}
	if free := int64(disk.Bavail) * disk.Bsize; free < minSpace { //nolint:unconvert // the types differ between systems
		return &RefusedError{
			string(l), fmt.Sprintf("is on a disk with %d MiB free, and a member needs %d MiB", free>>20, minSpace>>20),
			"free space there, or give --data-dir a directory on another disk",
		}
	}
	return nil
}
