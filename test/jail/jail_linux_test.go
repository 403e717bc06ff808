package jail

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestVerify_machine: this machine is no jail, whatever of it a jail would lack.
func TestVerify_machine(t *testing.T) {
	err := verify()
	if err == nil {
		t.Fatal("systemd would be started on the machine itself")
	}
	t.Log(err)
}

// TestEnter tries actions that would reach the machine.
func TestEnter(t *testing.T) {
	if !Enter(t, Config{
		Units: map[string]string{"a.service": "[Service]\nType=oneshot\nExecStart=/opt/a/program -c 'echo it runs >/run/a'\n"},
		Files: map[string]string{"/opt/a/program": "/bin/sh"},
	}) {
		return
	}
	entries, err := os.ReadDir("/tmp")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(os.Args[0]+"/", "/tmp/"+e.Name()+"/") { // where this program is
			t.Errorf("/tmp has %s", e.Name())
		}
	}
	if err := os.WriteFile("/usr/bin/marker", nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("write a file to /usr: got %v", err)
	}
	if err := unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, ""); err == nil {
		if err := os.WriteFile("/usr/bin/marker", nil, 0o600); err == nil {
			t.Error("/usr can be made writable")
		}
	}
	if err := unix.Mknod("/tmp/disk", unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0))); !errors.Is(err, unix.EPERM) {
		t.Errorf("make the device of a disk: got %v", err)
	}
	if err := unix.Mount("/dev/null", "/mnt", "ext4", 0, ""); err == nil {
		t.Error("a disk can be mounted")
	}
	if out, err := exec.Command("systemctl", "start", "a.service").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text, err := os.ReadFile("/run/a"); err != nil || string(text) != "it runs\n" {
		t.Errorf("got %q, %v", text, err)
	}
}
