package slowdisk

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A write of a process takes at least as long as the disk, also a write of its child, and one to
// memory does not wait.
func TestDisk(t *testing.T) {
	t.Parallel()
	const long = 200 * time.Millisecond
	d, err := New()
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	for _, test := range []struct {
		name   string
		takes  time.Duration
		script string
		waits  bool
	}{
		{"fdatasync", long, "dd if=/dev/zero of=" + file + " bs=1 count=1 conv=fdatasync", true},
		{"fsync of a child", long, "(dd if=/dev/zero of=" + file + " bs=1 count=1 conv=fsync; true)", true},
		{"a fast disk again", 0, "dd if=/dev/zero of=" + file + " bs=1 count=1 conv=fsync", false},
		{"a write that waits for nothing", time.Hour, "dd if=/dev/zero of=" + file + " bs=1 count=1", false},
	} {
		d.Take(test.takes)
		cmd := exec.Command("/bin/sh", "-c", test.script)
		began := time.Now()
		if err := d.Start(cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if took := time.Since(began); test.waits && took < test.takes {
			t.Errorf("%s: it took %s, less than %s", test.name, took, test.takes)
		}
	}
}
