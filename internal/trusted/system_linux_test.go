package trusted

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A ConfigMap in a pod is a file system that is mounted read-only, with a directory that every
// user could write otherwise.
func TestProblem_readOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a file system")
	}
	dir := t.TempDir()
	type found struct{ writable, readOnly string }
	result := make(chan found, 1)
	go func() { // its thread has a mount namespace of its own, and ends with it
		defer close(result)
		runtime.LockOSThread()
		for _, err := range []error{
			unix.Unshare(unix.CLONE_NEWNS),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0777"),
			os.WriteFile(filepath.Join(dir, "file"), nil, 0o600),
		} {
			if err != nil {
				t.Errorf("mount a file system: %v", err)
				return
			}
		}
		var out found
		out.writable = Problem(filepath.Join(dir, "file"))
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "mode=0777"); err != nil {
			t.Errorf("mount it read-only: %v", err)
			return
		}
		out.readOnly = Problem(filepath.Join(dir, "file"))
		result <- out
	}()
	if got, ok := <-result; ok && (got.writable == "" || got.readOnly != "") {
		t.Errorf("got %q while it can be written, and %q while it cannot", got.writable, got.readOnly)
	}
}

func TestEveryID(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": true, // the machine itself
		"0 100000 65536\n":                   false,
		"0 0 1\n65534 165534 1\n":            false,
		"":                                   false,
	} {
		if got := everyID(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}
