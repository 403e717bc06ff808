package etcdtest

import (
	"context"
	"net"
	"os/exec"
	"runtime"
	"sync"
	"testing"
)

func TestFreeAddr_neverTwice(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		addr, err := FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		if seen[addr] {
			t.Fatalf("%s was returned before", addr)
		}
		seen[addr] = true
	}
}

// Two processes get different ports, and one that has given out all of its own begins again.
func TestPortBlocks(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var one, two portBlocks
	seen := map[int]bool{}
	for range 40 * blockSize {
		for _, p := range []*portBlocks{&one, &two} {
			port := p.take()
			if seen[port] {
				t.Fatalf("%d was given out before", port)
			}
			seen[port] = true
		}
	}
	for len(seen) < lastPort-firstPort {
		seen[one.take()] = true
	}
	if port := one.take(); port != one.firsts[0] {
		t.Errorf("all are given out: got %d, want %d", port, one.firsts[0])
	}
	runtime.KeepAlive(&two) // its locks, too
	t.Setenv("TMPDIR", "/proc/nowhere")
	var alone portBlocks
	if port := alone.take(); port < firstPort || port >= lastPort {
		t.Errorf("without a directory for the locks: got %d", port)
	}
}

// A port is free as soon as its listener is closed, also while other goroutines start
// programs.
func TestAwaitFree(t *testing.T) {
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var starters sync.WaitGroup
	for range 4 {
		starters.Go(func() {
			for ctx.Err() == nil {
				_ = exec.Command(program).Run() // its outcome does not matter
			}
		})
	}
	t.Cleanup(func() { cancel(); starters.Wait() })
	addr, err := FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatalf("after %d times: %v", i, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		AwaitFree(addr)
	}
}
