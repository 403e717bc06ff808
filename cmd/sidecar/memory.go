package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/lockstep-dev/lockstep"
)

// A sidecar is idle nearly all the time, beside programs that need the machine's memory.
const (
	// idleGCPercent is how much the heap grows before it is collected, unless GOGC is set. An idle
	// sidecar allocates little.
	idleGCPercent = 40
	// memoryPause is the time between two looks at the memory that the heap does not use, and unusedMemory
	// how much of it is returned to the system. The runtime alone keeps as much as the heap once needed.
	memoryPause  = 20 * time.Second
	unusedMemory = 2 << 20
)

// needLittleMemory configures the runtime for a sidecar.
func needLittleMemory(opts lockstep.Options) {
	if !opts.Profiling { // which serves samples of all allocations
		runtime.MemProfileRate = 0
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(idleGCPercent)
	}
}

// returnMemory returns memory that the heap does not use to the system, until ctx ends.
func returnMemory(ctx context.Context) {
	unused := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}}
	look := time.NewTicker(memoryPause)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if metrics.Read(unused); unused[0].Value.Uint64() > unusedMemory {
			debug.FreeOSMemory()
		}
	}
}
