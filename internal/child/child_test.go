package child

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A line without end, or a very long one, is read to its end.
func TestLines(t *testing.T) {
	const limit = 1 << 10
	text := "a\r\n\n" + strings.Repeat("x", 3*limit) + "\nb"
	var got []int
	var raw strings.Builder
	Lines(strings.NewReader(text), limit, func(part []byte) { raw.Write(part) }, func(line string) { got = append(got, len(line)) })
	if want := []int{1, 0, limit + len(CutMark), 1}; !slices.Equal(got, want) {
		t.Errorf("got lengths %v, want %v", got, want)
	}
	if raw.String() != text {
		t.Errorf("got %d bytes of %d", raw.Len(), len(text))
	}
}

// lateChild returns a child that counts as running until ended is closed, although SIGKILL ends
// it: a test cannot make one that waits for a disk.
func lateChild(t *testing.T) *Child {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &Child{cmd: cmd, ended: make(chan struct{})}
}

// A leader that ends later than it may after SIGKILL: the reasons are true, and no zombie stays.
func TestChild_endsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lateChild(t)
		c.readers.Go(func() { // it ends while its output is read
			<-time.After(killTimeout + time.Millisecond)
			close(c.ended)
		})
		if ended, reason := c.Finish(0), c.Reason(); !ended || !strings.HasPrefix(reason, "signal: killed") {
			t.Errorf("got %t, %q", ended, reason)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := lateChild(t)
		ended := c.Finish(0)
		close(c.ended) // right after
		if reason := c.Reason(); ended || !strings.Contains(reason, "does not end 10s after SIGKILL") {
			t.Errorf("got %t, %q", ended, reason)
		}
		if reaped, reason := c.Reap(), c.Reason(); !reaped || !strings.HasPrefix(reason, "signal: killed") {
			t.Errorf("got %t, %q", reaped, reason)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := lateChild(t)
		if c.Finish(0) || c.Reap() {
			t.Error("it runs, and counts as ended")
		}
		close(c.ended)
		if !c.Reap() {
			t.Error("not reaped")
		}
	})
}

func TestExec(t *testing.T) {
	starter := NewStarter()
	var wg sync.WaitGroup
	defer wg.Wait()
	serving, stop := context.WithCancel(t.Context())
	defer stop()
	wg.Go(func() { _ = starter.Run(serving) })
	sh := func(ctx context.Context, script string) error {
		return starter.Exec(ctx, []string{"/bin/sh", "-c", script})
	}
	if err := sh(t.Context(), "exit 0"); err != nil {
		t.Error(err)
	}
	if err := sh(t.Context(), "echo one; echo two >&2; exit 2"); err == nil || err.Error() != "/bin/sh: exit status 2: two" {
		t.Errorf("got %v", err)
	}
	if err := starter.Exec(t.Context(), []string{"/nonexistent"}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- sh(ctx, `sleep 1000 & echo $$ $! > "`+fifo+`"; wait`) }()
	text, err := os.ReadFile(fifo)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	pids := strings.Fields(string(text))
	if err != nil || len(pids) != 2 {
		t.Fatalf("got %q, %v", text, err)
	}
	for _, pid := range pids {
		awaitEnd(t, pid)
	}
}

// awaitEnd returns when a process has ended. Of an orphan that no process waits for, a zombie may stay.
func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(text), ") Z ") {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("process %s runs", pid)
		}
	}
}
