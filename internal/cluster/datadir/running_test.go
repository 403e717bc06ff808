package datadir

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestClaim: the file of a sidecar that runs is locked; one that was killed leaves it, and the next one learns of that.
func TestClaim(t *testing.T) {
	l := Layout(t.TempDir())
	if _, _, found := l.LastRun(); found {
		t.Error("a run is found in an empty directory")
	}
	run := Run{Since: time.Unix(1000, 0).UTC(), Listen: "127.0.0.1:1", Boot: "a"}
	c, before, err := l.Claim(run)
	must(t, err)
	if before != nil {
		t.Errorf("got %+v before the first run", before)
	}
	_, _, err = l.Claim(Run{Listen: "another"})
	if _, locked := errors.AsType[*LockedError](err); !locked {
		t.Errorf("a second sidecar: got %v", err)
	}
	got, pid, found := l.LastRun()
	if _, err := os.Stat(locksFile); err == nil && (!found || pid != os.Getpid() || got != run || l.Holder() != pid) {
		t.Errorf("it runs: got %+v, %d, %t; %d holds it", got, pid, found, l.Holder())
	}
	if !l.IsOurs() {
		t.Error("the directory has a file of others")
	}
	must(t, mustOpen(t, string(l)).Close())

	must(t, c.file.Close()) // as the kernel does at the end of a process
	if got, pid, found := l.LastRun(); found && (pid != 0 || got != run || l.Holder() != 0) {
		t.Errorf("it was killed: got %+v, %d, held by %d", got, pid, l.Holder())
	}
	next := run
	next.Boot = "b"
	c, before, err = l.Claim(next)
	must(t, err)
	if before == nil || *before != run {
		t.Errorf("got %+v before, want %+v", before, run)
	}
	must(t, c.End())
	if _, err := os.Stat(l.Running()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
	must(t, os.WriteFile(l.Running(), []byte("{"), 0o600))
	if _, _, found := l.LastRun(); found {
		t.Error("a file that is not complete counts")
	}
	c, before, err = l.Claim(next)
	must(t, err)
	if before != nil {
		t.Errorf("got %+v of a file that is not complete", before)
	}
	must(t, c.End())
}

// TestClaim_concurrent: whenever sidecars end and start, at most one of them has the directory.
func TestClaim_concurrent(t *testing.T) {
	l := Layout(t.TempDir())
	var holders, claims atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				c, _, err := l.Claim(Run{Since: time.Unix(1000, 0)})
				if _, locked := errors.AsType[*LockedError](err); locked {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d sidecars have the directory", n)
				}
				claims.Add(1)
				own, _ := c.file.Stat()
				if present, err := os.Stat(l.Running()); err != nil || !os.SameFile(own, present) {
					t.Errorf("it has a file that another one deleted: %v", err)
				}
				holders.Add(-1)
				if err := c.End(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if claims.Load() == 0 {
		t.Error("no sidecar had the directory")
	}
}
