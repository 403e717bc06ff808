package readiness

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A probe that succeeded before its instance was started counts after the instance ran for a while.
func TestProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails error
		probe := Proven(func(context.Context) error { return fails })
		<-time.After(ProofTime - time.Millisecond)
		if err := probe(t.Context()); err == nil {
			t.Error("it counts at once")
		}
		<-time.After(time.Millisecond)
		if err := probe(t.Context()); err != nil {
			t.Errorf("got %v", err)
		}
		fails = errors.New("down")
		if err := probe(t.Context()); !errors.Is(err, fails) {
			t.Errorf("got %v", err)
		}
	})
}
