package fleet

import (
	"context"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
)

const (
	// leavePause is the time between two checks whether the kube-apiserver has stopped.
	leavePause = 200 * time.Millisecond
	// leaveTimeout bounds the deletion of the record.
	leaveTimeout = 5 * time.Second
)

// LeaverConfig configures a Leaver. All fields are required.
type LeaverConfig struct {
	Registrar *Registrar
	// Rest ends the writes of the presence.
	Rest func()
	// GateClosed reports whether clients see a closed gate.
	GateClosed func() bool
	// Leads is whether this node may still hold the leader's key.
	Leads *event.Value[bool]
	// Refuses tries to connect to this node's kube-apiserver, and reports whether no program accepts
	// connections there.
	Refuses       func(context.Context) bool
	ShutdownDelay time.Duration
	Log           *slog.Logger
}

// Leaver deletes the ephemeral record of a node whose sidecar stops
// (docs/protocol-nodes.md#ephemeral).
type Leaver struct{ cfg LeaverConfig }

// NewLeaver returns a Leaver.
func NewLeaver(cfg LeaverConfig) *Leaver { return &Leaver{cfg: cfg} }

// Await waits until protocol.Leave decides whether the record is deleted or stays, and returns the
// facts for that. The caller has closed the gate, and the node does not lead. stopped is when the
// sidecar began to stop. If ctx has not ended, it stops because of an error.
func (l *Leaver) Await(ctx context.Context, stopped time.Time) protocol.LeaveFacts {
	var api refusals
	failed := ctx.Err() == nil
	clean := context.WithoutCancel(ctx) // protocol.Leave bounds the wait
	for said := false; ; said = true {
		facts := l.facts(time.Since(stopped), api.lasted())
		facts.Failed = failed
		leaving, why := protocol.Leave(facts)
		if leaving != protocol.WaitToLeave {
			return facts
		}
		if !said {
			l.cfg.Log.Info("record not deleted yet", "reason", why)
		}
		sent := time.Now()
		api.learn(l.cfg.Refuses(clean), sent, time.Now())
		backoff.Sleep(clean, leavePause)
	}
}

func (l *Leaver) facts(waited, refused time.Duration) protocol.LeaveFacts {
	r := l.cfg.Registrar
	local := r.cfg.Local.Get()
	facts := protocol.LeaveFacts{
		Ephemeral: local.Ephemeral, Roles: protocol.Roles{Controller: true},
		Present:    r.cfg.Presence.Get() != clientv3.NoLease,
		GateClosed: l.cfg.GateClosed(), Leads: l.cfg.Leads.Get(),
		Waited: waited, ShutdownDelay: l.cfg.ShutdownDelay, Refused: refused,
	}
	if own, found := r.cfg.Fleet.Get().Record(local.ID); found && own.Problem == "" {
		facts.Roles = own.Node.Roles
	}
	return facts
}

// Leave deletes the record if the facts allow it. The caller has ended Registrar.Run.
func (l *Leaver) Leave(ctx context.Context, facts protocol.LeaveFacts) {
	leaving, why := protocol.Leave(facts)
	var err error
	if leaving == protocol.DeleteRecord {
		l.cfg.Rest()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		leaving, why, err = l.cfg.Registrar.Leave(limited, facts)
	}
	switch {
	case leaving == protocol.DeleteRecord:
		l.cfg.Log.Info("record deleted")
	case facts.Ephemeral:
		l.cfg.Log.Warn("record not deleted, leaders wait until it expires",
			"reason", why, "err", err, "expireAfter", l.cfg.Registrar.cfg.Local.Get().ExpireAfter)
	}
}

// refusals measures for how long a kube-apiserver refuses connections.
type refusals struct {
	// first is when the first refusal arrived, last when the newest refused request was sent; zero:
	// the newest request was not refused.
	first, last time.Time
}

// learn takes over whether a request was refused.
//
//revive:disable-next-line:flag-parameter it is a fact
func (r *refusals) learn(refused bool, sent, arrived time.Time) {
	switch {
	case !refused:
		r.first, r.last = time.Time{}, time.Time{}
	case r.first.IsZero():
		r.first, r.last = arrived, sent
	default:
		r.last = sent
	}
}

// lasted returns for how long every connection was refused; 0: the newest one was not.
func (r *refusals) lasted() time.Duration { return max(0, r.last.Sub(r.first)) }
