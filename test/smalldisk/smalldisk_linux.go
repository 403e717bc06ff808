// Package smalldisk gives a test a file system of its own that is small: a tmpfs, mounted
// where no other process sees it. It needs Linux and a kernel that allows user namespaces,
// and no root; elsewhere a test is skipped loudly.
//
//	func TestFullDisk(t *testing.T) {
//		if !smalldisk.Enter(t) {
//			return
//		}
//		dir := smalldisk.Mount(t, 200<<20)
//		filled := smalldisk.Fill(t, dir)
//		... // there is no space left
//		smalldisk.Free(t, filled)
//	}
package smalldisk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/test/again"
)

// Enter runs the test that calls it again, as a process that may mount, and passes its
// result on. It returns false then, and the caller returns. In the new process it returns
// true.
func Enter(t *testing.T) bool {
	t.Helper()
	if again.Inside(t) {
		return true
	}
	attr := syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if err := again.Run(t, attr); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: needs a user namespace and a mount namespace: %v", err)
	}
	return false
}

// Mount mounts a disk of that many bytes, until the test ends, and returns its directory.
func Mount(t *testing.T, size int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		again.Skip(t, fmt.Sprintf("the kernel allows a user namespace, and no mount in it: %v", err))
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Fill writes a file until the disk of a directory is full, and returns the file.
func Fill(t *testing.T, dir string) (file string) {
	t.Helper()
	file = filepath.Join(dir, "filler")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<16)
	for err == nil {
		_, err = out.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	return file
}

// Free makes all but a number of bytes of a file that Fill wrote free again.
func Free(t *testing.T, file string, kept int64) {
	t.Helper()
	if err := os.Truncate(file, kept); err != nil {
		t.Fatal(err)
	}
}
