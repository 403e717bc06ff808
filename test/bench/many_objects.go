package main

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	reconcilereport "github.com/lockstep-dev/lockstep/report"
)

// objectless is a reconciler of no objects. It is in the place of the Kubernetes API
// of one control plane, whose sidecars share it: it keeps the mark, and completes
// each pass at once.
type objectless struct {
	report *event.Value[reconcilereport.Reconcile]

	mu       sync.Mutex // mu guards the fields below
	mark     protocol.Mark
	answered time.Time
}

func newObjectless() *objectless {
	return &objectless{report: event.New(reconcilereport.Reconcile{}), mark: protocol.Mark{Kind: protocol.MarkAbsent}}
}

func (o *objectless) Report() *event.Value[reconcilereport.Reconcile] { return o.report }

func (o *objectless) Trouble() reconcilereport.Trouble { return reconcilereport.Trouble{} }

func (o *objectless) Answered() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answered
}

func (o *objectless) Survey(context.Context, protocol.Work, time.Time) (protocol.Mark, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answered = time.Now()
	return o.mark, nil
}

// Reconcile waits as the protocol asks for, and writes the mark.
func (o *objectless) Reconcile(ctx context.Context, w protocol.Work, _ func() time.Time, quiet time.Time) (protocol.Outcome, error) {
	if w.Wait {
		pause(ctx, time.Until(quiet))
	}
	if ctx.Err() != nil {
		return protocol.Outcome{}, ctx.Err()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answered = time.Now()
	switch {
	case o.mark.Store != "" && o.mark.Store != w.Store:
		return protocol.Outcome{ForeignStore: o.mark.Store}, nil
	case w.First && o.mark.FirstDone:
		return protocol.Outcome{Unfounded: true}, nil
	}
	o.mark = protocol.Mark{
		Kind: protocol.MarkPresent, FirstDone: true, Entries: []protocol.Content{w.Content},
		HighestEpoch: w.Content.Epoch, Store: w.Store,
	}
	return protocol.Outcome{Complete: true, HighestEpoch: w.Content.Epoch}, nil
}

func (o *objectless) Keep(ctx context.Context, _ protocol.Work, _ func() time.Time) (protocol.Outcome, error) {
	<-ctx.Done()
	return protocol.Outcome{}, ctx.Err()
}
