package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// BuildMember builds the program of an etcd member into a directory of the test. It
// builds without the race detector: that would find nothing here and make it slow.
func BuildMember(t testing.TB) string {
	t.Helper()
	return build(t, "etcdmember", "github.com/lockstep-dev/lockstep/test/cluster/etcdmember")
}

// programs are the programs that tests of this process built and still use, by how they are built. A link
// takes two seconds of a processor, so tests that run beside each other share a program.
var programs = struct {
	sync.Mutex

	built map[string]*built
}{built: map[string]*built{}}

type built struct {
	users int // guarded by programs
	once  sync.Once
	dir   string
	err   error
}

// build returns the path of a program below the directory of the binaries. If make did not build it there, build
// builds it, or returns the one that another test built the same way.
func build(t testing.TB, file string, args ...string) string {
	t.Helper()
	if path := filepath.Join(os.Getenv(assetsVariable), file); filepath.IsAbs(path) {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	name, how := filepath.Base(file), strings.Join(args, " ")
	programs.Lock()
	b := programs.built[how]
	if b == nil {
		b = &built{}
		programs.built[how] = b
	}
	b.users++
	programs.Unlock()
	t.Cleanup(func() { b.leave(t, how) })
	b.once.Do(func() { b.err = b.build(name, args) })
	if b.err != nil {
		t.Fatalf("build %s: %v", name, b.err)
	}
	return filepath.Join(b.dir, name)
}

func (b *built) build(name string, args []string) (err error) {
	if b.dir, err = os.MkdirTemp("", "lockstep-build-"); err != nil {
		return err
	}
	// No context of a test: others wait for the program, too.
	line := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(b.dir, name)}, args...)
	cmd := exec.Command("go", line...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return nil
}

// leave deletes the program if no other test uses it.
func (b *built) leave(t testing.TB, how string) {
	programs.Lock()
	defer programs.Unlock()
	if b.users--; b.users > 0 {
		return
	}
	delete(programs.built, how)
	if b.dir == "" {
		return
	}
	if err := os.RemoveAll(b.dir); err != nil {
		t.Error(err)
	}
}
