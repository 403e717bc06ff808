package fleet

import (
	"context"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
)

const (
	// retirePause is the time between two checks whether the kube-apiserver has stopped.
	retirePause = 200 * time.Millisecond
	// retireTimeout bounds the deletion of the record.
	retireTimeout = 5 * time.Second
)

// RetirerConfig configures a Retirer. All fields are required.
type RetirerConfig struct {
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

// Retirer deletes the ephemeral record of a node whose sidecar stops
// (docs/protocol-nodes.md#ephemeral).
type Retirer struct{ cfg RetirerConfig }

// NewRetirer returns a Retirer.
func NewRetirer(cfg RetirerConfig) *Retirer { return &Retirer{cfg: cfg} }

// Await waits until noderecord.Retire decides whether the record is deleted or stays, and returns the
// facts for that. The caller has closed the gate, and the node does not lead. stopped is when the
// sidecar began to stop. If ctx has not ended, it stops because of an error.
func (l *Retirer) Await(ctx context.Context, stopped time.Time) noderecord.RetireFacts {
	var api refusals
	failed := ctx.Err() == nil
	clean := context.WithoutCancel(ctx) // noderecord.Retire bounds the wait
	for said := false; ; said = true {
		facts := l.facts(time.Since(stopped), api.lasted())
		facts.Failed = failed
		decision, why := noderecord.Retire(facts)
		if decision != noderecord.WaitToRetire {
			return facts
		}
		if !said {
			l.cfg.Log.Info("record not deleted yet", "reason", why)
		}
		sent := time.Now()
		api.learn(l.cfg.Refuses(clean), sent, time.Now())
		backoff.Sleep(clean, retirePause)
	}
}

func (l *Retirer) facts(waited, refused time.Duration) noderecord.RetireFacts {
	r := l.cfg.Registrar
	local := r.cfg.Local.Get()
	facts := noderecord.RetireFacts{
		Ephemeral: local.Ephemeral, Roles: protocol.Roles{Controller: true},
		Present:    r.cfg.Presence.Get() != clientv3.NoLease,
		GateClosed: l.cfg.GateClosed(), Leads: l.cfg.Leads.Get(),
		Waited: waited, ShutdownDelay: l.cfg.ShutdownDelay, Refused: refused,
	}
	now := r.cfg.Fleet.Get()
	if own, found := now.Record(local.ID); found && own.Problem == "" {
		facts.Roles = own.Node.Roles
	}
	facts.Turn, _ = now.Turns.Of(local.ID)
	return facts
}

// Retire deletes the record if the facts allow it. The caller has ended Registrar.Run.
func (l *Retirer) Retire(ctx context.Context, facts noderecord.RetireFacts) {
	decision, why := noderecord.Retire(facts)
	var err error
	if decision == noderecord.DeleteRecord {
		l.cfg.Rest()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), retireTimeout)
		defer cancel()
		decision, why, err = l.cfg.Registrar.deleteRecord(limited, facts)
	}
	switch {
	case decision == noderecord.DeleteRecord:
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
