package status

import (
	"context"
	"errors"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestGate_WaitReady(t *testing.T) {
	w := newWorld(t)
	ready := make(chan error, 1)
	go func() { ready <- w.gate.WaitReady(t.Context()) }()
	waits := func(reason protocol.Reason) {
		t.Helper()
		w.await(reason)
		select {
		case err := <-ready:
			t.Fatalf("WaitReady returned (%v) while %s", err, reason)
		default:
		}
	}
	waits(protocol.NotRegistered)
	w.register()
	waits(protocol.StatusMissing)
	w.put("0.0.0", "0.0.0")
	waits(protocol.ReconcilerTooOld)
	w.put("10000.0.0", "10000.0.0")
	waits(protocol.ReleaseTooOld)
	w.put("10000.0.0", "1.1.0")
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	if v := w.gate.Verdict().Get(); !v.Ready || v.Reason != protocol.Ready {
		t.Errorf("got %+v", v)
	}
}

func TestGate_WaitReady_cancelled(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.gate.WaitReady(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
