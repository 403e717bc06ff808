package etcdtest

import (
	"context"
	"net"
	"os/exec"
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
