package cluster

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// before is the commit whose program is used while there is no release. A tag such as
// v1.2.3 takes its place.
const before = "b9a60e75ff949937bd23739e9869b4b09b1f71e8"

// BuildBefore builds the sidecar of the last release, from its tag in this repository, and returns its
// path. The test is skipped in a clone without that history.
func BuildBefore(t testing.TB) string {
	t.Helper()
	root := strings.TrimSpace(git(t, ".", "rev-parse", "--show-toplevel"))
	revision := before
	// The tag of this commit names this program, not the last release.
	if tag, err := exec.Command("git", "-C", root, "describe", "--tags", "--match=v[0-9]*", "--abbrev=0", "HEAD~1").Output(); err == nil {
		revision = strings.TrimSpace(string(tag))
	}
	if err := exec.Command("git", "-C", root, "cat-file", "-e", revision+"^{commit}").Run(); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: this clone does not have %s; type: git fetch --unshallow --tags", revision)
	}
	t.Logf("the version before this one is %s", revision)
	dir := t.TempDir()
	unpack := exec.Command("tar", "-x", "-C", dir)
	unpack.Stdin = strings.NewReader(git(t, root, "archive", revision))
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v: %s", revision, err, out)
	}
	program := filepath.Join(t.TempDir(), "sidecar")
	cmd := exec.Command("sh", filepath.Join(dir, "build", "sidecar"), program)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "LDFLAGS=-s -w -funcalign=4")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the sidecar of %s: %v: %s", revision, err, out)
	}
	return program
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: the program of the last release is built from this repository: git %s: %v: %s", args[0], err, &problem)
	}
	return string(out)
}
