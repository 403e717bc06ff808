package attack

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Not all goroutines of an attack begin at one moment.
func TestAttack_Run_begins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 100
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var begun atomic.Int64
		a := Attack{workers: workers, many: true, step: func(ctx context.Context, _ Target, _ net.IP) int {
			begun.Add(1)
			<-ctx.Done()
			return 1
		}}
		times := make(chan int, 1)
		go func() { times <- a.Run(ctx, Target{From: Addresses(1)}) }()
		for i := range int64(workers) {
			synctest.Wait()
			if got := begun.Load(); got != i+1 {
				t.Fatalf("after %s, %d have begun", time.Duration(i)*beginPause, got)
			}
			<-time.After(beginPause)
		}
		cancel()
		if got := <-times; got != workers {
			t.Errorf("got %d, want %d", got, workers)
		}
	})
}
