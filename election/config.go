package election

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/trace"
)

// Applier makes the objects of the API match the bundle. A leader calls it from
// one goroutine at a time.
type Applier interface {
	// Survey reads the mark and the highest content epoch of the set. A mark that
	// cannot be read is an error, never an absent one. If the stamps must replace
	// the mark, Survey reads them after quiet.
	Survey(ctx context.Context, work protocol.Work, quiet time.Time) (protocol.Mark, error)
	// Reconcile makes the objects as work describes. It sends no write after
	// lease(), an instant on the monotonic clock that moves as the lease is
	// renewed. Until quiet, requests of other leaders may take effect in the API;
	// zero: none can. An error means that the pass was not possible; objects that
	// the API rejects make the outcome incomplete instead. An error that does not
	// wrap ErrNotDue counts as an unreachable API. Reconcile returns soon after
	// ctx ends, if possible with answers to the requests under way.
	Reconcile(ctx context.Context, work protocol.Work, lease func() time.Time, quiet time.Time) (protocol.Outcome, error)
	// Keep keeps the objects as the complete pass over work just left them, until
	// ctx ends: it repairs the changes of other clients. An error says why a full
	// pass is due. lease and the end of ctx mean the same as for Reconcile.
	Keep(ctx context.Context, work protocol.Work, lease func() time.Time) (protocol.Outcome, error)
	// Answered returns when the API last answered a request of these methods, on
	// the monotonic clock; zero: never. Requests that it refused to this user, and
	// failures of the server, do not count.
	Answered() time.Time
}

// Config configures an Election. Every field is required, unless its comment explains
// nil.
type Config struct {
	Client *etcd.Client
	Store  *status.Store // of the same Client
	Local  *event.Value[protocol.Local]
	Fleet  *event.Value[protocol.Fleet] // as this node observes it
	// StoreKey is the store's ID as this node observes it. It only wakes the leader.
	StoreKey *event.Value[fleet.StoreKey]
	Applier  Applier
	// Session is the session of this node's presence; nil while there is none. The candidate's key is
	// on its lease.
	Session *event.Value[*etcd.Session]

	TTL            time.Duration // of that lease
	ResyncInterval time.Duration // between two full passes
	YieldAfter     time.Duration // how long a leader accepts an unreachable API (docs/protocol.md#yielding)

	// APIProblem returns why the API cannot be used now, as State shows it while
	// this node is withdrawn. It is called only when it cannot. nil: State shows
	// the error of Survey.
	APIProblem func() protocol.Eligibility

	// Missing returns since when this sidecar has seen that a node is not alive, for messages about it; zero: it has not.
	// nil: it has seen none.
	Missing func(protocol.NodeID) time.Time

	// MayLead becomes true before this node enters the queue, and false when its key was
	// deleted, or could not be. nil: State is enough.
	MayLead *event.Value[bool]

	Log        *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
	Trace      trace.Hook            // of tests and of the flight recorder; nil: nothing is reported
}

// State is this node's part in the election, for people.
type State struct {
	Election protocol.ElectionState
	Since    time.Time // when Election last changed
	Epoch    int64     // of this node's leadership; 0 while it does not lead
	// Eligibility says why this node does not campaign: also while it is
	// withdrawn, by the error that made it withdraw or the newest since.
	Eligibility protocol.Eligibility
	// Step is the newest decision of this leader; the zero Step while it does not
	// lead.
	Step protocol.Step
	// Absences lists every node that this leader sees without a presence; empty
	// while it does not lead.
	Absences map[protocol.NodeID]report.Absence
	// Working: a survey or a pass is running.
	Working bool
	// Garbage says which number in the status or in the mark this leader does not
	// believe (docs/protocol.md#content-epoch); empty: it believes all.
	Garbage string
	// Problem is why the newest survey, pass or write failed; empty: it succeeded.
	Problem string
}

// same compares the fields that people see. Step.String prints all that a step decides, without the messages of blockers.
func (s State) same(o State) bool {
	return s.Election == o.Election && s.Epoch == o.Epoch && s.Eligibility == o.Eligibility &&
		s.Working == o.Working && s.Problem == o.Problem && s.Garbage == o.Garbage && maps.Equal(s.Absences, o.Absences) &&
		s.Step.Message == o.Step.Message && slices.Equal(s.Step.Blockers, o.Step.Blockers) && s.Step.String() == o.Step.String()
}

// Leader is the node that leads, as this node's watch sees it.
type Leader struct {
	Node  protocol.NodeID // empty: no node is a candidate
	Epoch int64           // of its leadership; 0: no node is a candidate
}
