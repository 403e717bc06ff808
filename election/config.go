package election

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// Applier brings the objects of the API to what the bundle wants. A leader
// calls it from one goroutine at a time.
type Applier interface {
	// Survey reads the mark and the highest content epoch of the set. A mark
	// that cannot be read is an error, never absent. Where the stamps have to
	// serve for it, they are read when quiet has come.
	Survey(ctx context.Context, work protocol.Work, quiet time.Time) (protocol.Mark, error)
	// Reconcile makes the objects as work says. Nothing may be written after
	// lease(), an instant on the monotonic clock that moves as the lease is
	// renewed. Until quiet, requests of others may land in the API; zero: none
	// can. An error says that the pass could not be done; objects that the API
	// refuses make the outcome incomplete instead. An error that does not wrap
	// ErrNotDue counts as an API that is out of reach. It ends soon after ctx
	// does, with requests that are under way answered if that may be.
	Reconcile(ctx context.Context, work protocol.Work, lease func() time.Time, quiet time.Time) (protocol.Outcome, error)
	// Keep keeps the objects as the complete pass over work left them that was
	// just made, until ctx ends: what others change is put back. An error says
	// why a full pass is due. The lease is as in Reconcile, and so is the end.
	Keep(ctx context.Context, work protocol.Work, lease func() time.Time) (protocol.Outcome, error)
	// Answered returns when the API last answered a request of either, on the
	// monotonic clock; zero: never. Refusals of the user and failures of the
	// server do not count.
	Answered() time.Time
}

// Config is what an Election needs.
type Config struct {
	Client  *etcd.Client
	Store   *status.Store
	Local   *event.Value[protocol.Local]
	Fleet   *event.Value[protocol.Fleet]
	Applier Applier

	TTL            time.Duration // of the candidate's lease; whole seconds
	ResyncInterval time.Duration // between two full passes
	YieldAfter     time.Duration // how long a leader bears that its API is out of reach (4.7)
	// DrainTime is how long after it was sent a request can still land in the
	// API. 0: protocol.DrainTime.
	DrainTime time.Duration

	Log        *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// State is what an Election shows.
type State struct {
	Election    protocol.ElectionState
	Epoch       int64 // of the own leadership; 0 while it does not lead
	Eligibility protocol.Eligibility
	// Step is the newest decision of this leader; the zero Step while it does
	// not lead.
	Step protocol.Step
	// Absences is since when this leader has seen presences gone; empty while it
	// does not lead.
	Absences map[protocol.NodeID]Absence
	// Working: a survey or a pass is under way.
	Working bool
	// Problem is why the newest survey, pass or write did not succeed; empty:
	// it did.
	Problem string
}

// same compares what is shown. A step prints all that it decides.
func (s State) same(o State) bool {
	return s.Election == o.Election && s.Epoch == o.Epoch && s.Eligibility == o.Eligibility &&
		s.Working == o.Working && s.Problem == o.Problem && maps.Equal(s.Absences, o.Absences) &&
		s.Step.Message == o.Step.Message && s.Step.String() == o.Step.String()
}

// Leader is who leads, as seen by everybody.
type Leader struct {
	Node  protocol.NodeID // empty: nobody
	Epoch int64
}
