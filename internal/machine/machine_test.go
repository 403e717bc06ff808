package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFirstLine(t *testing.T) {
	for content, want := range map[string]string{"id\n": "id", " id \nmore\n": "id ", "\n\n": "", "": ""} {
		file := filepath.Join(t.TempDir(), "id")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := firstLine(file); got != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
	if got := firstLine(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("no file: got %q", got)
	}
}

// The ID is of the machine, or of its boot where the machine has none.
func TestID(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil && BootID() == "" {
		return // another system: both are unknown
	}
	if got, want := BootID(), strings.TrimSpace(string(boot)); got != want || want == "" {
		t.Errorf("got boot %q, want %q", got, want)
	}
	want := BootID()
	if id, err := os.ReadFile("/etc/machine-id"); err == nil && len(id) > 1 {
		want = strings.TrimSpace(string(id))
	}
	if got := ID(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
