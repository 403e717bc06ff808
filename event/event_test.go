package event

import (
	"sync"
	"testing"
)

func TestValue(t *testing.T) {
	v := New(1)
	got, changed := v.Load()
	if got != 1 {
		t.Fatalf("got %d", got)
	}
	select {
	case <-changed:
		t.Fatal("changed before a Set")
	default:
	}
	v.Set(2)
	<-changed
	if got := v.Get(); got != 2 {
		t.Errorf("got %d", got)
	}
	v.Update(func(n int) int { return n + 1 })
	if got, _ := v.Load(); got != 3 {
		t.Errorf("got %d", got)
	}
	var zero Value[string]
	if got, _ := zero.Load(); got != "" {
		t.Errorf("the zero Value holds %q", got)
	}
}

// A follower that loads, works and waits sees the newest value in the end.
func TestValue_manyFollowers(t *testing.T) {
	const last = 1000
	v := New(0)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			seen := -1
			for seen != last {
				val, changed := v.Load()
				if val < seen {
					t.Errorf("went back from %d to %d", seen, val)
					return
				}
				if seen = val; seen != last {
					<-changed
				}
			}
		})
	}
	for n := 1; n <= last; n++ {
		v.Set(n)
	}
	group.Wait()
}
