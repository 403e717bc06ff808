package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// gcPercent returns the percentage in force.
func gcPercent() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}

// TestCollections: while collections follow each other fast, the heap may grow by busyRoom; then as that of an idle sidecar.
func TestCollections(t *testing.T) {
	usual := debug.SetGCPercent(idleGCPercent)
	t.Cleanup(func() { debug.SetGCPercent(usual) })
	c, now := &collections{}, time.Now()
	for range 3 {
		now = now.Add(2 * busyPause)
		c.observe(now)
	}
	if c.busy || gcPercent() != idleGCPercent {
		t.Errorf("of an idle sidecar: busy %t, %d percent", c.busy, gcPercent())
	}
	runtime.GC()
	now = now.Add(busyPause / 2)
	c.observe(now)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	small := m.HeapAlloc < busyRoom // other tests of this process may have left more
	if !c.busy || small && gcPercent() <= idleGCPercent || gcPercent() < idleGCPercent ||
		uint64(gcPercent()) > max(idleGCPercent, busyRoom*100/(m.HeapAlloc/8)) {
		t.Errorf("of a busy one: busy %t, %d percent of a heap of %d bytes", c.busy, gcPercent(), m.HeapAlloc)
	}
	more := make([]byte, 8*busyRoom)
	runtime.GC()
	now = now.Add(busyPause / 2)
	c.observe(now)
	runtime.KeepAlive(more)
	if gcPercent() != idleGCPercent { // busyRoom is less than that
		t.Errorf("of a busy one that needs %d bytes more: %d percent", len(more), gcPercent())
	}
	if c.calm(now.Add(calmPause/2)) || !c.calm(now.Add(calmPause)) || gcPercent() != idleGCPercent || c.calm(now.Add(calmPause)) {
		t.Errorf("of one that was busy: %d percent", gcPercent())
	}
}

// TestCollections_watch: each collection is observed.
func TestCollections_watch(t *testing.T) {
	usual := debug.SetGCPercent(idleGCPercent)
	t.Cleanup(func() { debug.SetGCPercent(usual) })
	c := &collections{}
	observed := func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.last
	}
	c.watch()
	for last := (time.Time{}); ; last = observed() {
		runtime.GC()
		runtime.Gosched()
		if now := observed(); !last.IsZero() && now.After(last) {
			return // twice
		}
	}
}
