package trusted

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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

// An access control list gives other users a right to write that neither the owner nor the mode shows.
func TestProblem_accessControlList(t *testing.T) {
	const owner, group, mask, others, noID = 1, 4, 16, 32, math.MaxUint32
	type entry struct {
		Kind, Rights uint16
		ID           uint32
	}
	for name, tc := range map[string]struct {
		entry entry
		mask  uint16
		want  string
	}{
		"a user":                {entry{2, 6, 4711}, 6, "can be changed by the user with the ID 4711, in its access control list"},
		"a group":               {entry{8, 6, 4711}, 6, "can be changed by the group with the ID 4711, in its access control list"},
		"a user who reads":      {entry{2, 4, 4711}, 6, ""},
		"without the mask":      {entry{2, 6, 4711}, 4, ""},
		"root":                  {entry{2, 6, 0}, 6, ""},
		"the user of this test": {entry{2, 6, uint32(os.Geteuid())}, 6, ""},
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		list := binary.LittleEndian.AppendUint32(nil, 2)
		for _, e := range []entry{{owner, 6, noID}, tc.entry, {group, 4, noID}, {mask, tc.mask, noID}, {others, 0, noID}} {
			if e == tc.entry && e.Kind == 8 { // after the group
				continue
			}
			list, _ = binary.Append(list, binary.LittleEndian, e)
			if e.Kind == group && tc.entry.Kind == 8 {
				list, _ = binary.Append(list, binary.LittleEndian, tc.entry)
			}
		}
		switch err := unix.Setxattr(path, "system.posix_acl_access", list, 0); {
		case errors.Is(err, unix.ENOTSUP):
			t.Skip("the file system of the tests knows no access control lists")
		case err != nil:
			t.Fatal(err)
		}
		if got := Problem(path); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
