package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Into a pipe, each change is one line, with the time.
func TestStatusWatch_pipe(t *testing.T) {
	f := newFakeSidecar()
	t.Cleanup(f.Close)
	f.snapshot.Set(awaits())
	stdout, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	p := program{Program: console.Program{Stdout: w, Stderr: io.Discard, LookupEnv: func(string) (string, bool) { return "", false }, Now: func() time.Time { return noon }}}
	done := make(chan int, 1)
	go func() { done <- p.main(ctx, []string{"status", "-w", "--server", f.URL}); w.Close() }()
	shown := bufio.NewScanner(stdout)
	next := func(want string) {
		t.Helper()
		if !shown.Scan() || !strings.HasPrefix(shown.Text(), want) {
			t.Fatalf("got %q, want %q", shown.Text(), want)
		}
	}
	for _, want := range []string{
		"12:00:00  NODE       cp-1", "12:00:00  BUNDLE     -", "12:00:00  GATE       ready for 5h0m", "12:00:00  STATUS     WORKING", "12:00:00  LEADER     cp-1",
		"12:00:00  STEP       WaitForNodes", "12:00:00  OBJECTS    12 desired", "12:00:00  UPGRADE    do not start", "12:00:00  ETCD       connected",
		"12:00:00  FLEET      cp-1  release 1.1.0  gate ready  alive yes  election leading  blocks -", "12:00:00  FLEET      cp-2", "12:00:00  FLEET      cp-3",
		"12:00:00  BLOCKERS   cp-2  reason ReleaseTooOld", "12:00:00  BLOCKERS   cp-3", "12:00:00  FAILURES   StorageClass", "12:00:00  WARNINGS   cp-1", "12:00:00  WARNINGS   cp-1",
	} {
		next(want)
	}
	s := awaits()
	s.Fleet.Records[1].Presence.Reason = protocol.Cordoned
	s.Reconcile.Failures = nil
	f.snapshot.Set(s)
	next("12:00:00  OBJECTS    12 desired")
	next("12:00:00  UPGRADE    do not start")
	next("12:00:00  FLEET      cp-2  release 1.0.0  gate Cordoned")
	next("12:00:00  FAILURES   no more: StorageClass")
	go func() {
		for shown.Scan() {
			t.Errorf("got %q", shown.Text())
		}
	}()
	cancel()
	<-done
}
