package app

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// noObjects is a reconciler without work.
type noObjects struct{}

func (noObjects) Survey(context.Context, protocol.Work, time.Time) (protocol.Mark, error) {
	return protocol.Mark{Kind: protocol.MarkAbsent}, nil
}

func (noObjects) Reconcile(_ context.Context, w protocol.Work, _ func() time.Time, _ time.Time) (protocol.Outcome, error) {
	return protocol.Outcome{Complete: true, HighestEpoch: w.Content.Epoch}, nil
}

func (noObjects) Keep(ctx context.Context, _ protocol.Work, _ func() time.Time) (protocol.Outcome, error) {
	<-ctx.Done()
	return protocol.Outcome{}, ctx.Err()
}

func (noObjects) Answered() time.Time { return time.Now() }

func (noObjects) Report() *event.Value[report.Reconcile] { return event.New(report.Reconcile{}) }

func (noObjects) Trouble() report.Trouble { return report.Trouble{} }

// TestReconcilerOfConfig: a sidecar with another reconciler leads, and opens its gate,
// without a request to the API.
func TestReconcilerOfConfig(t *testing.T) {
	api := newCountingAPI(t)
	cfg := configure(t, etcdtest.New(t).Endpoints()[0], api)
	cfg.Reconciler = noObjects{}
	s := start(t, cfg)
	s.awaitReason(protocol.Ready)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if n := api.requests.Load(); n != 0 {
		t.Errorf("the API got %d requests, want none", n)
	}
}
