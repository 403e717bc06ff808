package status

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Clients see a verdict when the code that renders it calls Show, not when the gate decides it.
func TestGate_Shown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateConfig{Local: event.New(protocol.Local{}), Log: slog.New(slog.DiscardHandler)})
		g.Show(g.Verdict().Get())
		before := g.Shown().Get()
		g.Stop()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.WaitShown(ended); !errors.Is(err, context.Canceled) || g.Shown().Get() != before {
			t.Errorf("before the verdict is rendered: got %v and %+v", err, g.Shown().Get())
		}
		shown := make(chan error, 1)
		go func() { shown <- g.WaitShown(t.Context()) }()
		synctest.Wait()
		g.Show(g.Verdict().Get())
		if err := <-shown; err != nil || g.Shown().Get().Reason != protocol.ShuttingDown {
			t.Errorf("after it is rendered: got %v and %+v", err, g.Shown().Get())
		}
	})
}
