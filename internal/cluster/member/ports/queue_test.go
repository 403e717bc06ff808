package ports

import (
	"context"
	"math"
	"net/netip"
	"testing"
	"testing/synctest"
)

// A few connections of an address are served at once. When a node is found there, those that wait go on too.
func TestQueue_turns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(math.MaxUint64)
		const waits = 3
		passed := make(chan bool, atOnce+waits)
		var all []*waiting
		for range atOnce + waits {
			w := q.enter(node)
			all = append(all, w)
			go func() { passed <- w.await(t.Context(), nil) }() // ends below
		}
		synctest.Wait()
		for range atOnce {
			if <-passed {
				t.Error("a stranger is a node")
			}
		}
		if len(passed) != 0 {
			t.Errorf("%d more than may are served at once", len(passed))
		}
		q.know([]netip.Addr{node})
		for range waits {
			if !<-passed {
				t.Error("a connection that waited does not know that it is a node's")
			}
		}
		if !q.enter(node).await(t.Context(), nil) {
			t.Error("a later connection is a stranger")
		}
		for _, w := range all {
			w.leave()
		}
		if len(q.by[node].turn) != 0 || q.open != 1 || q.by[node].open != 1 {
			t.Errorf("%d turns, %d and %d connections are left", len(q.by[node].turn), q.open, q.by[node].open)
		}
	})
}

// A wait ends with its time, and when the port is closed; and each turn that ends is another one's.
func TestQueue_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(math.MaxUint64)
		var first []*waiting
		for range atOnce {
			first = append(first, q.enter(stranger))
			first[len(first)-1].await(t.Context(), nil)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		closed := make(chan struct{})
		close(closed)
		for name, f := range map[string]func(w *waiting){
			"its time": func(w *waiting) { w.await(ctx, nil) }, "the port": func(w *waiting) { w.await(t.Context(), closed) },
		} {
			w := q.enter(stranger)
			if f(w); w.holds {
				t.Errorf("%s ended: it has a turn", name)
			}
			w.leave()
		}
		next := q.enter(stranger)
		first[0].leave()
		next.await(t.Context(), nil)
		if !next.holds {
			t.Error("it has no turn")
		}
	})
}

// The number of connections is bounded, in all and of an address; some are kept for addresses that have none.
func TestQueue_bounds(t *testing.T) {
	for _, files := range []uint64{0, 1024, 4096, math.MaxUint64} {
		q := newQueue(files)
		fill := func(first byte) (entered int) {
			for i := range 3 * mostStrangers {
				if q.enter(netip.AddrFrom4([4]byte{first, 0, 0, byte(i % 3)})) != nil {
					entered++
				}
			}
			return entered
		}
		one := 0
		for q.enter(stranger) != nil {
			one++
		}
		if want := q.most / 2; one != want {
			t.Errorf("%d files: %d connections of one address, want %d", files, one, want)
		}
		if got, want := one+fill(11), q.most; got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
		if q.enter(node) == nil {
			t.Errorf("%d files: an address without a connection is refused", files)
		}
		if most := uint64(q.most + q.reserved); files > 0 && most > max(files/6, fewest+fewest/reservedPart) {
			t.Errorf("%d files: %d connections are let in", files, most)
		}
	}
}

// A connection that is not counted does not wait.
func TestQueue_none(t *testing.T) {
	var w *waiting
	if w.await(t.Context(), nil) {
		t.Error("it is found to be a node")
	}
	w.leave()
}
