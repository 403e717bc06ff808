package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// A goroutine that returns while it is locked to its thread ends the thread. Its
// children must survive that.
func TestStartCommand_childOutlivesThread(t *testing.T) {
	for range 20 {
		child := newEcho(t)
		thread, err := startOnDyingThread(child.cmd)
		if err != nil {
			t.Fatal(err)
		}
		awaitThreadEnd(t, thread)
		// The kernel signals the children of a thread before it removes the
		// thread from /proc. A child that was killed answers nothing any more.
		if err := child.echo("alive"); err != nil {
			t.Fatalf("thread %d has ended and its child does not answer: %v", thread, err)
		}
	}
}

// startOnDyingThread starts cmd from a thread that ends afterwards, and returns
// the thread's ID.
func startOnDyingThread(cmd *exec.Cmd) (thread int, err error) {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		thread = syscall.Gettid()
		if thread == syscall.Getpid() {
			// Go never ends the main thread. This goroutine keeps it meanwhile, so
			// the next one runs on another thread.
			thread, err = startOnDyingThread(cmd)
			return
		}
		err = StartCommand(cmd)
	}()
	<-returned
	return thread, err
}

func awaitThreadEnd(t *testing.T, thread int) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("thread %d still runs: %v", thread, err)
		default:
			runtime.Gosched()
		}
	}
}

// echoChild is a child that repeats its input.
type echoChild struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newEcho(t *testing.T) *echoChild {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "cat")
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // a child that was killed closed it
		_ = cmd.Wait() // its context has ended and killed it
	})
	return &echoChild{cmd: cmd, in: in, out: bufio.NewReader(out)}
}

func (e *echoChild) echo(line string) error {
	if _, err := fmt.Fprintln(e.in, line); err != nil {
		return err
	}
	got, err := e.out.ReadString('\n')
	if err != nil {
		return err
	}
	if got != line+"\n" {
		return fmt.Errorf("got %q, want %q", got, line)
	}
	return nil
}

// parentEnv makes TestStartCommand_childDiesWithProgram the program that is
// killed.
const parentEnv = "LOCKSTEP_TEST_PARENT"

// A child must not survive a crash of the program that started it.
func TestStartCommand_childDiesWithProgram(t *testing.T) {
	if os.Getenv(parentEnv) != "" {
		startAndHang(t)
	}
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStartCommand_childDiesWithProgram$")
	parent.Env = append(os.Environ(), parentEnv+"=1")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	parent.Stdout, parent.Stderr = write, os.Stderr
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(read)
	if line, err := out.ReadString('\n'); line != "started\n" {
		t.Fatalf("the parent wrote %q: %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	if err := read.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	// Parent and child hold the pipe's other end: it closes when both ended.
	if _, err := out.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the pipe to close: the child outlives its parent", err)
	}
}

// startAndHang starts a child that holds this program's stdout, and waits to be
// killed.
func startAndHang(t *testing.T) {
	child := exec.CommandContext(t.Context(), "sleep", "600")
	child.Stdout = os.Stdout
	if err := StartCommand(child); err != nil {
		t.Fatal(err)
	}
	fmt.Println("started")
	_ = child.Wait() // never returns: this program is killed first
}
