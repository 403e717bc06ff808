// Package event provides the one way in which workers of a sidecar share a fact:
// a value that many can follow. Each follower sees the newest value. It owns no
// fact and starts no goroutine.
package event

import (
	"context"
	"reflect"
	"sync"
	"time"
)

// Value holds the newest value of a fact. It is never empty (it holds the zero
// value of T until the first Set), keeps no history, and needs no Close. All
// methods may be called from many goroutines. A Value must not be copied.
//
// Each method is compiled for each type. So none of them uses a defer, which
// would double it: they cannot panic.
type Value[T any] struct {
	mu      sync.Mutex // mu guards val and changed
	val     T
	changed chan struct{}
}

// New returns a Value that holds val.
func New[T any](val T) *Value[T] {
	return &Value[T]{val: val}
}

// Load returns the newest value and a channel that is closed at the next Set.
// A follower that loads, works, and then waits for the channel misses nothing
// but the values in between.
func (v *Value[T]) Load() (val T, changed <-chan struct{}) {
	v.mu.Lock()
	if v.changed == nil {
		v.changed = make(chan struct{})
	}
	val, changed = v.val, v.changed
	v.mu.Unlock()
	return val, changed
}

// Get returns the newest value.
func (v *Value[T]) Get() T {
	v.mu.Lock()
	val := v.val
	v.mu.Unlock()
	return val
}

// Set replaces the value and wakes all followers.
func (v *Value[T]) Set(val T) {
	v.mu.Lock()
	v.val = val
	v.wake()
	v.mu.Unlock()
}

// Update replaces the value by the result of f and wakes all followers. f must
// neither block nor use the Value. (A method would be compiled for each type of
// Value, also where nothing calls it.)
func Update[T any](v *Value[T], f func(T) T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.val = f(v.val)
	v.wake()
}

// SetIfNew sets the value only if it differs: followers that set another value in turn would never rest
// otherwise. No other goroutine may set v.
func SetIfNew[T comparable](v *Value[T], val T) {
	if v.Get() != val {
		v.Set(val)
	}
}

// Changed returns the channel that Load returns.
func (v *Value[T]) Changed() <-chan struct{} {
	_, changed := v.Load()
	return changed
}

// Changes returns the channels of several values, for Wait. A follower that gets the values afterwards
// misses nothing, as with Load.
func Changes(values ...interface{ Changed() <-chan struct{} }) []<-chan struct{} {
	changes := make([]<-chan struct{}, 0, len(values))
	for _, v := range values {
		changes = append(changes, v.Changed())
	}
	return changes
}

// wake needs mu.
func (v *Value[T]) wake() {
	if v.changed == nil {
		return
	}
	close(v.changed)
	v.changed = nil
}

// WaitFor waits until one of the changes happens, but at most for limit; 0: without a limit. It reports
// false if ctx has ended.
func WaitFor(ctx context.Context, limit time.Duration, changes ...<-chan struct{}) bool {
	if limit == 0 {
		return Wait(ctx, changes...)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	Wait(limited, changes...)
	return ctx.Err() == nil
}

// Wait returns when one of the channels closes, like a channel of Value.Load,
// or when ctx ends. It reports whether ctx is still alive. A nil channel never
// closes. It starts no goroutine.
func Wait(ctx context.Context, changes ...<-chan struct{}) bool {
	var c [6]<-chan struct{}
	if len(changes) > len(c) {
		return waitMany(ctx, changes)
	}
	copy(c[:], changes)
	select {
	case <-ctx.Done():
	case <-c[0]:
	case <-c[1]:
	case <-c[2]:
	case <-c[3]:
	case <-c[4]:
	case <-c[5]:
	}
	return ctx.Err() == nil
}

// waitMany allocates and is slower than a select, but takes any number.
func waitMany(ctx context.Context, changes []<-chan struct{}) bool {
	cases := make([]reflect.SelectCase, 0, len(changes)+1)
	cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())})
	for _, c := range changes {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)})
	}
	reflect.Select(cases)
	return ctx.Err() == nil
}

// WithEnd returns a context that also ends when end closes. The function ends it, and returns when the
// goroutine of it has ended; it must be called.
func WithEnd(ctx context.Context, end <-chan struct{}) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waits sync.WaitGroup
	waits.Go(func() {
		Wait(ctx, end)
		cancel()
	})
	return ctx, func() { cancel(); waits.Wait() }
}

// Until returns nil when the value meets a condition, or ctx's error when ctx ends first. It starts
// no goroutine.
func Until[T any](ctx context.Context, v *Value[T], met func(T) bool) error {
	for {
		now, changed := v.Load()
		if met(now) {
			return nil
		}
		if !Wait(ctx, changed) {
			return ctx.Err()
		}
	}
}

// Is is the condition of Until that a value is true.
func Is(now bool) bool { return now }
