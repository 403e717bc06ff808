package event

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
	Update(v, func(n int) int { return n + 1 })
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

func TestWait(t *testing.T) {
	for _, n := range []int{0, 1, 6, 7, 12} {
		t.Run(fmt.Sprintf("%d values", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testWait(t, n) })
		})
	}
}

func testWait(t *testing.T, n int) {
	values := make([]Value[int], n)
	load := func() []<-chan struct{} {
		var changes []<-chan struct{}
		for i := range values {
			_, changed := values[i].Load()
			changes = append(changes, changed)
		}
		return changes
	}
	for i := range values {
		changes, began := load(), time.Now()
		time.AfterFunc(time.Second, func() { values[i].Set(1) })
		if !Wait(t.Context(), changes...) {
			t.Errorf("value %d: the context is reported as ended", i)
		}
		if got := time.Since(began); got != time.Second {
			t.Errorf("value %d: waited for %s, want 1s", i, got)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began, changes := time.Now(), load()
	if Wait(ctx, changes...) {
		t.Error("no value changed, and the context is reported as alive")
	}
	if got := time.Since(began); got != time.Minute {
		t.Errorf("waited for %s, want the context's minute", got)
	}
	if n > 0 {
		values[0].Set(2)
		if Wait(ctx, changes...) {
			t.Error("after a change: the context is reported as alive, and has ended")
		}
	}
}

// A nil channel never closes, as in a select.
func TestWait_nilChannels(t *testing.T) {
	for _, n := range []int{1, 7} {
		synctest.Test(t, func(t *testing.T) {
			changes := make([]<-chan struct{}, n)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if Wait(ctx, changes...) {
				t.Errorf("%d nil channels ended the wait", n)
			}
		})
	}
}

// Until returns at once when the condition holds, after the Set that meets it, or when ctx ends.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(3)
		atLeast := func(n int) func(int) bool { return func(now int) bool { return now >= n } }
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Until(ended, v, atLeast(3)); err != nil {
			t.Errorf("the condition holds: got %v", err)
		}
		if err := Until(ended, v, atLeast(4)); !errors.Is(err, context.Canceled) {
			t.Errorf("ctx has ended: got %v", err)
		}
		result := make(chan error, 1)
		go func() { result <- Until(t.Context(), v, atLeast(5)) }()
		for _, n := range []int{4, 2, 5} {
			synctest.Wait()
			select {
			case err := <-result:
				t.Errorf("it returned before %d was set: %v", n, err)
			default:
			}
			v.Set(n)
		}
		if err := <-result; err != nil {
			t.Error(err)
		}
		met := New(false)
		met.Set(true)
		if err := Until(ended, met, Is); err != nil {
			t.Error(err)
		}
	})
}

func TestWithEnd(t *testing.T) {
	for name, ends := range map[string]func(cancel, end, done func()){
		"the parent":   func(cancel, _, _ func()) { cancel() },
		"the channel":  func(_, end, _ func()) { end() },
		"the function": func(_, _, done func()) { done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // it fails if a goroutine stays
				parent, cancel := context.WithCancel(t.Context())
				defer cancel()
				end := make(chan struct{})
				ctx, done := WithEnd(parent, end)
				synctest.Wait()
				if ctx.Err() != nil {
					t.Fatal("it has ended at once")
				}
				ends(cancel, func() { close(end) }, done)
				<-ctx.Done()
				done()
			})
		})
	}
}

// WaitFor returns after a change, after its limit, or when ctx ends; a limit of 0 is none.
func TestWaitFor(t *testing.T) {
	for name, tc := range map[string]struct {
		limit, change, end, want time.Duration
		alive                    bool
	}{
		"a change":                   {limit: time.Minute, change: time.Second, end: time.Hour, want: time.Second, alive: true},
		"the limit":                  {limit: time.Minute, change: time.Hour, end: time.Hour, want: time.Minute, alive: true},
		"a limit that is over":       {limit: -1, change: time.Second, end: time.Hour, alive: true},
		"the end before the limit":   {limit: time.Minute, change: time.Hour, end: time.Second, want: time.Second},
		"no limit, a change":         {change: time.Second, end: time.Hour, want: time.Second, alive: true},
		"no limit, and the end only": {change: 2 * time.Hour, end: time.Hour, want: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.end)
				defer cancel()
				v, began := New(0), time.Now()
				_, changed := v.Load()
				defer time.AfterFunc(tc.change, func() { v.Set(1) }).Stop()
				if alive, took := WaitFor(ctx, tc.limit, changed), time.Since(began); alive != tc.alive || took != tc.want {
					t.Errorf("got %t after %s, want %t after %s", alive, took, tc.alive, tc.want)
				}
			})
		})
	}
}

func TestSetIfNew(t *testing.T) {
	v := New(1)
	_, changed := v.Load()
	SetIfNew(v, 1)
	if !open(changed) {
		t.Error("the same value woke the followers")
	}
	if SetIfNew(v, 2); open(changed) || v.Get() != 2 {
		t.Errorf("another value: got %d, and the followers sleep: %t", v.Get(), open(changed))
	}
}

func TestChanges(t *testing.T) {
	number, text := New(1), New("a")
	changes := Changes(number, text)
	if text.Set("b"); len(changes) != 2 || !open(changes[0]) || open(changes[1]) {
		t.Errorf("got %d channels, want that of the text closed, and that of the number open", len(changes))
	}
}

func open(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}
