package packed_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/packed"
)

const dirVariable = "PACKED_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVariable); dir != "" {
		err := pack("#!/bin/sh\nread line; echo \"$line of $$\"\n").Exec(dir, os.Environ())
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func pack(content string) packed.Program {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(content)); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	sum := sha256.Sum256([]byte(content))
	return packed.Program{Name: "prog", Gzip: out.Bytes(), Sum: hex.EncodeToString(sum[:])}
}

func TestUnpack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "program")
	old, p := pack("old"), pack("new")
	first := unpack(t, old, dir)
	path := unpack(t, p, dir)
	want := func(when string) {
		t.Helper()
		if got := read(t, path); got != "new" {
			t.Errorf("%s: got %q", when, got)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: mode %v, error %v", when, info.Mode(), err)
		}
	}
	want("first")
	if _, err := os.Stat(first); err == nil {
		t.Errorf("%s of another release is still there", first)
	}
	kept, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	unpack(t, p, dir)
	if again, err := os.Stat(path); err != nil || !os.SameFile(kept, again) {
		t.Errorf("a file that is right was written again (error %v)", err)
	}

	other := filepath.Join(t.TempDir(), "other")
	for name, damage := range map[string]func() error{
		"cut":        func() error { return os.Truncate(path, 1) },
		"changed":    func() error { return os.WriteFile(path, []byte("bad"), 0o700) },
		"writable":   func() error { return os.Chmod(path, 0o777) },
		"a link":     func() error { return replaceByLink(path, other) },
		"unfinished": func() error { return os.Rename(path, path+".tmp") },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		unpack(t, p, dir)
		want(name)
	}
	if got := read(t, other); got != "new" {
		t.Errorf("a link was followed: its target is %q", got)
	}
}

// replaceByLink has the right content at the end of a link, which another user may change later.
func replaceByLink(path, target string) error {
	if err := os.Rename(path, target); err != nil {
		return err
	}
	return os.Symlink(target, path)
}

func TestUnpack_brokenBuild(t *testing.T) {
	wrong, cut, empty := pack("a"), pack("a"), pack("a")
	wrong.Sum, cut.Gzip, empty.Sum = pack("b").Sum, cut.Gzip[:4], ""
	for name, p := range map[string]packed.Program{"sum": wrong, "gzip": cut, "no sum": empty} {
		if path, err := p.Unpack(t.TempDir()); err == nil || !strings.Contains(err.Error(), "this build is broken") {
			t.Errorf("%s: got %q, %v", name, path, err)
		}
	}
}

func TestExec(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), dirVariable+"="+t.TempDir())
	cmd.Stdin = strings.NewReader("the spec\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if words := strings.Fields(string(out)); len(words) != 4 || words[1] != "spec" {
		t.Errorf("got %q", out)
	}
}

func unpack(t *testing.T, p packed.Program, dir string) string {
	t.Helper()
	path, err := p.Unpack(dir)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	out, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
