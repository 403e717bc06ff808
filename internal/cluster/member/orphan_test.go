package member_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// parentCommand makes this test's binary a parent: it runs the supervisor of a Spec,
// with the lock of its directory.
const parentCommand = "parent"

func runParent(ctx context.Context, specFile, lockFile string) int {
	text, err := os.ReadFile(specFile)
	if err != nil {
		panic(err)
	}
	var spec member.Spec
	if err := json.Unmarshal(text, &spec); err != nil {
		panic(err)
	}
	lock, err := os.OpenFile(lockFile, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		panic(err)
	}
	s := member.New(member.Config{Command: []string{os.Args[0], childCommand}, Spec: spec, Lock: lock})
	go func() {
		for {
			now, changed := s.State().Load()
			if now.Ready {
				fmt.Println(now.PID)
			}
			<-changed
		}
	}()
	fmt.Fprintln(os.Stderr, s.Run(ctx))
	return 1
}

// The parent is killed. The member ends by itself, gracefully, and frees the lock of
// the directory only then.
func TestChild_parentKilled(t *testing.T) {
	n := newRig(t).node(t, "one")
	spec, err := json.Marshal(n.spec)
	if err != nil {
		t.Fatal(err)
	}
	specFile, lockFile := filepath.Join(n.dir, "spec"), filepath.Join(n.dir, "lock")
	for file, text := range map[string][]byte{specFile: spec, lockFile: nil} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parent := exec.Command(os.Args[0], parentCommand, specFile, lockFile)
	parent.Stderr = writer{t, "parent"}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := put(t, client(t, n), "key"); err != nil {
		t.Error(err)
	}
	lock, err := os.OpenFile(lockFile, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	free := func() bool { return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }
	if free() {
		t.Error("the directory is not locked")
	}
	var pid int
	if _, err := fmt.Sscan(line, &pid); err != nil {
		t.Fatal(err)
	}
	thaw := cluster.Freeze(t, pid) // the checks below run before its end
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	if free() {
		t.Error("the lock is free while the child runs")
	}
	thaw()
	until(t, "the lock is free", free)
	until(t, "the child has ended", func() bool { return ended(pid) })
	m := n.start(t)
	m.awaitReady(t)
	if resp, err := client(t, n).Get(t.Context(), "key"); err != nil || len(resp.Kvs) != 1 {
		t.Errorf("got %v, %v", resp, err)
	}
}

// ended reports whether a process has ended. Of an orphan that no process waits for,
// an entry without memory may stay.
func ended(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}
