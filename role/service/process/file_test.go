package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// content returns the files of a directory and what they have.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(text)
	}
	return out
}

func wantContent(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := content(t, dir)
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: got %q, want %q", name, got[name], text)
		}
	}
}

// write writes lines, as a sidecar that starts and ends with them.
func write(t *testing.T, f File, most int64, lines ...string) {
	t.Helper()
	r := f.open()
	r.limit = most
	for _, line := range lines {
		if n, err := r.Write([]byte(line)); err != nil || n != len(line) {
			t.Errorf("%q: got %d, %v", line, n, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "below", "it")
	f := File{Path: filepath.Join(dir, "out.log"), MaxSize: 1, Backups: 2}
	write(t, f, 8, "one\n", "two\n")
	wantContent(t, dir, map[string]string{"out.log": "one\ntwo\n"})
	write(t, f, 8, "three\n") // what the earlier sidecar wrote counts
	wantContent(t, dir, map[string]string{"out.log": "three\n", "out.log.1": "one\ntwo\n"})
	write(t, f, 8, "four\n", "five\n", "longer than the limit\n")
	wantContent(t, dir, map[string]string{"out.log": "longer than the limit\n", "out.log.1": "five\n", "out.log.2": "four\n"})
	write(t, f, 8)
	if err := os.Remove(f.backup(1)); err != nil {
		t.Fatal(err)
	}
	write(t, f, 8, "six\n")
	wantContent(t, dir, map[string]string{"out.log": "six\n", "out.log.1": "longer than the limit\n", "out.log.2": "four\n"})
	if got := f.open().limit; got != 1<<20 {
		t.Errorf("got a limit of %d bytes", got)
	}
}

// After an error, the file is written as soon as that is possible.
func TestFile_error(t *testing.T) {
	dir := t.TempDir()
	f := File{Path: filepath.Join(dir, "directory", "out.log"), MaxSize: 1, Backups: 1}
	if err := os.WriteFile(filepath.Join(dir, "directory"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := f.open()
	if _, err := r.Write([]byte("lost\n")); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "directory")) {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "directory")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write([]byte("written\n")); err != nil {
		t.Error(err)
	}
	if err := r.file.Close(); err != nil { // what the kernel refuses
		t.Fatal(err)
	}
	if _, err := r.Write([]byte("lost\n")); err == nil {
		t.Error("got no error")
	}
	if _, err := r.Write([]byte("again\n")); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	wantContent(t, filepath.Dir(f.Path), map[string]string{"out.log": "written\nagain\n"})
}
