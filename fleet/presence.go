package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// PresenceConfig is what a Presence needs.
type PresenceConfig struct {
	Client    *etcd.Client
	Node      protocol.NodeID
	Instance  string // of this run of the program; unique
	MachineID string // empty: unknown, so every other sidecar counts as elsewhere
	TTL       time.Duration
	Says      *event.Value[Says]
	Log       *slog.Logger
}

// Says is what a presence tells of its sidecar.
type Says struct {
	Verdict  protocol.Verdict
	Since    time.Time // of the verdict
	Election protocol.ElectionState
}

// Presence says on a lease that this sidecar is alive, and refuses to share
// its node ID (DESIGN 4.9).
type Presence struct {
	cfg   PresenceConfig
	key   string
	lease *event.Value[clientv3.LeaseID]
	held  bool // this instance has had the key
}

const (
	minPresencePause = 100 * time.Millisecond
	maxPresencePause = 3 * time.Second
)

// NewPresence returns a presence that is not in etcd yet.
func NewPresence(cfg PresenceConfig) *Presence {
	return &Presence{cfg: cfg, key: keyspace.Under(cfg.Client.Prefix()).Presence(cfg.Node), lease: event.New(clientv3.NoLease)}
}

// Lease follows the lease on which the presence stands; NoLease: it is not
// there, or no longer this instance's. Only who has the presence may write the
// record.
func (p *Presence) Lease() *event.Value[clientv3.LeaseID] { return p.lease }

// Run keeps the presence until ctx ends. It returns a *DuplicateError when
// another sidecar has the node ID.
func (p *Presence) Run(ctx context.Context) error {
	wait, failed := minPresencePause, false
	for {
		err := p.cfg.Client.WithSession(ctx, p.cfg.TTL, func(ctx context.Context, s *etcd.Session) error {
			wait, failed = minPresencePause, false
			return p.hold(ctx, s)
		})
		var duplicate *DuplicateError
		switch {
		case errors.As(err, &duplicate):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		p.cfg.Log.Log(ctx, severity(&failed), "presence not in etcd, trying again", "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
			wait = min(2*wait, maxPresencePause)
		}
	}
}

// severity is Warn for the first of several failures and Debug for the others.
func severity(failed *bool) slog.Level {
	if *failed {
		return slog.LevelDebug
	}
	*failed = true
	return slog.LevelWarn
}

// hold puts the presence, again at each change of what it says, until the
// session ends or another sidecar has the key.
func (p *Presence) hold(ctx context.Context, s *etcd.Session) error {
	follow, cancel := context.WithCancel(ctx)
	defer cancel()
	foreign := event.New(false)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		// Its only end is that of follow.
		_ = p.cfg.Client.Follow(follow, p.key, func(l etcd.Listing) { p.observe(l, foreign) })
	}()
	defer func() { cancel(); <-watched }()
	defer p.lease.Set(clientv3.NoLease)

	for {
		// Loaded before the write, so that no change during it is missed.
		says, saysChanged := p.cfg.Says.Load()
		_, foreignChanged := foreign.Load()
		s.Beat()
		retry, err := p.say(ctx, s, says)
		if err != nil {
			return err
		}
		if err := wait(ctx, s, saysChanged, foreignChanged, retry); err != nil {
			return err
		}
	}
}

// say puts the presence and returns when to try again where that did not
// succeed. Only a duplicate is an error: the session lives on.
func (p *Presence) say(ctx context.Context, s *etcd.Session, says Says) (retry <-chan time.Time, err error) {
	err = p.put(ctx, s, says)
	var duplicate *DuplicateError
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &duplicate):
		return nil, err
	}
	p.cfg.Log.Debug("presence not written, trying again", "err", err)
	return time.After(minPresencePause), nil
}

// wait returns nil when one of the channels has something, and the session's
// end otherwise.
func wait(ctx context.Context, s *etcd.Session, a, b <-chan struct{}, c <-chan time.Time) error {
	beat := time.NewTicker(s.TTL() / 3)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-beat.C:
			s.Beat()
		case <-a:
			return nil
		case <-b:
			return nil
		case <-c:
			return nil
		}
	}
}

// observe notes that the key is gone or of another instance, so that hold puts
// it again, or finds the duplicate.
func (p *Presence) observe(l etcd.Listing, foreign *event.Value[bool]) {
	for _, kv := range l.KVs {
		if kv.Key == p.key && decodePresence(kv.Value).Instance == p.cfg.Instance {
			return
		}
	}
	foreign.Set(true)
}

// put writes the presence, if the key is free, this instance's, or of another
// one on this machine that this one replaces.
func (p *Presence) put(ctx context.Context, s *etcd.Session, says Says) error {
	client := p.cfg.Client
	resp, err := client.Get(ctx, p.key)
	if err != nil {
		return err
	}
	var mod int64
	if len(resp.Kvs) > 0 {
		kv := resp.Kvs[0]
		mod = kv.ModRevision
		if err := p.yield(decodePresence(kv.Value), since(kv.Value)); err != nil {
			return err
		}
	}
	value := encodePresence(protocol.Presence{
		Instance: p.cfg.Instance, MachineID: p.cfg.MachineID,
		Ready: says.Verdict.Ready, Reason: says.Verdict.Reason, Election: says.Election,
	}, says.Since)
	txn, err := client.Txn(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(p.key), "=", mod)},
		[]clientv3.Op{clientv3.OpPut(p.key, string(value), clientv3.WithLease(s.Lease()))}, nil)
	switch {
	case err != nil:
		return fmt.Errorf("write presence: %w", err)
	case !txn.Succeeded:
		return errChanged
	}
	p.held = true
	if p.lease.Get() != s.Lease() {
		p.lease.Set(s.Lease())
	}
	return nil
}

// yield decides between this instance and the one whose presence was found:
// nil means that this one may have the key.
func (p *Presence) yield(found protocol.Presence, since time.Time) error {
	if !protocol.MustYieldID(protocol.DuplicateFacts{Holder: found, Instance: p.cfg.Instance, MachineID: p.cfg.MachineID, Held: p.held}) {
		return nil
	}
	where := "on another machine"
	if found.MachineID == p.cfg.MachineID {
		where = "on this machine"
	}
	detail := fmt.Sprintf("%s, instance %s", where, found.Instance)
	if !since.IsZero() {
		detail += ", " + string(found.Reason) + " since " + since.UTC().Format(time.RFC3339)
	}
	return &DuplicateError{Node: p.cfg.Node, Newcomer: !p.held, Detail: detail}
}
