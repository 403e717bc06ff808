package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// A sidecar is idle nearly all the time, beside programs that need the machine's memory.
const (
	// idleGCPercent is how much the heap grows before it is collected, unless GOGC is set. An idle
	// sidecar allocates little.
	idleGCPercent = 40
	// memoryPause is the time between two checks of the memory that the heap does not use, and unusedMemory
	// how much of it is returned to the system. The runtime alone keeps as much as the heap once needed.
	memoryPause  = 20 * time.Second
	unusedMemory = 2 << 20
	// busyPause: if two collections are closer together, the sidecar is busy, and the heap may grow by busyRoom (bytes)
	// before the next one. With idleGCPercent, collections took a seventh of the time of a busy health check.
	busyPause = 200 * time.Millisecond
	busyRoom  = 10 << 20
	// calmPause after the last collection, the sidecar counts as idle again; returnMemory checks that every memoryPause.
	calmPause = time.Second
)

// needLittleMemory configures the runtime for a sidecar, and returns memory to the system until ctx ends.
func needLittleMemory(ctx context.Context, opts lockstep.Options) {
	if !opts.Profiling { // which serves samples of all allocations
		runtime.MemProfileRate = 0
	}
	c := &collections{}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(idleGCPercent)
		c.watch()
	}
	go c.returnMemory(ctx)
}

// collections lets the heap of a busy sidecar grow more before it is collected.
type collections struct {
	mu   sync.Mutex // mu guards the fields below
	last time.Time
	busy bool

	percent int // in force; 0: as it was at the start
}

// watch calls observe after the next collection: the runtime then cleans up an object that nothing uses.
func (c *collections) watch() {
	runtime.AddCleanup(new([64]byte), func(c *collections) {
		c.observe(time.Now())
		c.watch()
	}, c)
}

// observe lets the heap grow by busyRoom once two collections are less than busyPause apart, until calm.
func (c *collections) observe(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = c.busy || now.Sub(c.last) < busyPause
	if c.busy { // the room is the same, whatever the heap is now
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		// the live heap counts as at least 1 MiB
		c.setPercent(max(idleGCPercent, int(busyRoom*100/max(1<<20, float64(live[0].Value.Uint64())))))
	}
	c.last = now
}

// setPercent sets how much the heap may grow, in percent of what is live.
func (c *collections) setPercent(percent int) {
	if percent != c.percent { // setting it stops the world
		debug.SetGCPercent(percent)
		c.percent = percent
	}
}

// calm ends the time in which the heap may grow more, if there was no collection for a while.
func (c *collections) calm(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.busy || now.Sub(c.last) < calmPause {
		return false
	}
	c.busy = false
	c.setPercent(idleGCPercent)
	return true
}

// returnMemory returns memory that the heap does not use to the system, until ctx ends.
func (c *collections) returnMemory(ctx context.Context) {
	unused := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}}
	_ = backoff.Every(ctx, memoryPause, func() { // its error is that ctx ended
		if metrics.Read(unused); c.calm(time.Now()) || unused[0].Value.Uint64() > unusedMemory {
			debug.FreeOSMemory()
		}
	})
}
