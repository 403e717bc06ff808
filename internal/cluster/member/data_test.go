package member_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
)

// The child reports the problem of a snapshot, and leaves no directory that looks like data.
func TestMakeData_noSnapshot(t *testing.T) {
	n := newRig(t).node(t, "a")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(strings.Repeat("no snapshot ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	n.spec.Snapshot = &member.Snapshot{File: file, Bump: 1}
	err := member.MakeData(t.Context(), member.Config{Command: n.command, Spec: n.spec})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v, want an error that names %s", err, file)
	}
}

func TestMakeData_noProgram(t *testing.T) {
	n := newRig(t).node(t, "a")
	n.spec.Snapshot = &member.Snapshot{File: "/nowhere"}
	err := member.MakeData(t.Context(), member.Config{Command: []string{"/bin/false"}, Spec: n.spec})
	if err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("got %v, want the exit status", err)
	}
}
