// Package event has the one way in which facts are shared inside a sidecar: a
// value that many can follow, of which each sees the newest. It owns no fact
// and starts no goroutine.
package event

import "sync"

// Value holds the newest value of a fact. It always has a value (the zero value
// of T until the first Set), keeps no history, and needs no Close. All methods
// may be called from many goroutines. A Value must not be copied.
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
	defer v.mu.Unlock()
	if v.changed == nil {
		v.changed = make(chan struct{})
	}
	return v.val, v.changed
}

// Get returns the newest value.
func (v *Value[T]) Get() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.val
}

// Set replaces the value and wakes all who wait for a change.
func (v *Value[T]) Set(val T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.val = val
	v.wake()
}

// Update replaces the value by what f makes of it and wakes all who wait for a
// change. f must neither block nor use the Value.
func (v *Value[T]) Update(f func(T) T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.val = f(v.val)
	v.wake()
}

// wake needs mu.
func (v *Value[T]) wake() {
	if v.changed == nil {
		return
	}
	close(v.changed)
	v.changed = nil
}
