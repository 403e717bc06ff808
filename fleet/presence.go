package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
)

// PresenceConfig configures a Presence. All fields except MachineID and Beat are required.
type PresenceConfig struct {
	Client    *etcd.Client
	Node      protocol.NodeID
	Instance  string        // of this run of the program; unique
	MachineID string        // empty: unknown, so every other sidecar counts as one on another machine
	Host      string        // the machine's name, for people; empty: unknown
	Address   string        // of this sidecar's listener; empty: unknown
	TTL       time.Duration // of the lease
	Shown     *event.Value[Shown]
	Log       *slog.Logger
	// Beat is called in each round, and more than once in a TTL; nil: nothing is. Its
	// channel is not used.
	Beat func() <-chan struct{}
}

// Shown is the part of a presence that describes its sidecar to all other sidecars.
type Shown struct {
	// Presence is without the fields that PresenceConfig has. The first protocol.MaxWarnings warnings are shown.
	protocol.Presence
	Since time.Time // when the verdict began
	Beats int       // each change writes the presence again, with the time
}

// Equal reports whether both show the same.
func (s Shown) Equal(o Shown) bool {
	a, b := s.Presence, o.Presence
	a.Warnings, b.Warnings = nil, nil
	return s.Since.Equal(o.Since) && s.Beats == o.Beats && slices.Equal(s.Warnings, o.Warnings) && reflect.DeepEqual(a, b)
}

// Presence keeps a key on a lease while this sidecar runs. It detects a second
// sidecar with the same node ID, and decides which of the two keeps the ID
// (docs/protocol-nodes.md#duplicate-ids).
type Presence struct {
	cfg   PresenceConfig
	key   string
	lease *event.Value[clientv3.LeaseID]
	held  *event.Value[*etcd.Session]
	rests *event.Value[bool] // the key is not written any more
	rival *event.Value[Rival]
	wrote int64 // revision of this instance's newest write of the key; 0: none
	// failures counts failures since the newest write that succeeded: of grants, of leases that
	// ended, and of writes.
	failures int
}

const (
	minPresencePause = 100 * time.Millisecond
	maxPresencePause = 3 * time.Second
	// writesPerLease is how many writes a presence attempts at least in a TTL: when
	// etcd accepts writes again, the presence is back long before a lease would end.
	writesPerLease = 5
)

// NewPresence returns a presence that is not in etcd yet.
func NewPresence(cfg PresenceConfig) *Presence {
	key := keyspace.Under(cfg.Client.Prefix()).Presence(cfg.Node)
	return &Presence{
		cfg: cfg, key: key, lease: event.New(clientv3.NoLease), held: event.New[*etcd.Session](nil),
		rests: event.New(false), rival: event.New(Rival{}),
	}
}

// Lease follows the lease of this instance's presence. It is NoLease while the key is missing
// or another instance's. Only the instance that holds the presence may write the node record.
func (p *Presence) Lease() *event.Value[clientv3.LeaseID] { return p.lease }

// Session follows the session of this instance's presence, for those who share its lease; nil while
// Lease is NoLease.
func (p *Presence) Session() *event.Value[*etcd.Session] { return p.held }

// Rest ends all writes of the key, also if it is deleted: the sidecar stops, and its
// record is deleted together with it. The lease lives on until Run ends.
func (p *Presence) Rest() { p.rests.Set(true) }

// Run keeps the presence until ctx ends, and returns ctx's error. It returns a
// *DuplicateError when another sidecar keeps the node ID.
func (p *Presence) Run(ctx context.Context) error {
	pauses := backoff.Backoff{First: minPresencePause, Max: maxPresencePause, Jitter: backoff.Apart}
	for {
		p.beat()
		err := p.cfg.Client.WithSession(ctx, p.cfg.TTL, func(ctx context.Context, s *etcd.Session) error {
			pauses.Reset()
			return p.hold(ctx, s)
		})
		if duplicate, is := errors.AsType[*DuplicateError](err); is {
			p.leaveNotice(ctx)
			return duplicate
		}
		pause := pauses.Next()
		if ctx.Err() == nil {
			p.failures++
			p.cfg.Log.Log(ctx, severity(p.failures), "presence not in etcd, trying again", "in", pause, "err", err)
		}
		if !backoff.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// severity is Warn for the first failure of a series, and Debug for the others: an outage logs
// one warning.
func severity(failures int) slog.Level {
	if failures == 1 {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func (p *Presence) beat() {
	if p.cfg.Beat != nil {
		p.cfg.Beat()
	}
}

// hold writes the presence, and writes it again whenever its content changes. It returns when
// the session ends or another sidecar keeps the node ID.
func (p *Presence) hold(ctx context.Context, s *etcd.Session) error {
	// Others see whether the key exists; nothing counts on this sidecar's clock.
	s.Outlast()
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	foreign := event.New(false)
	var followers sync.WaitGroup
	// The key is followed from its first write on: after a listing from before it, hold would
	// write the key twice. Follow returns only because its context ended.
	follow := sync.OnceFunc(func() {
		followers.Go(func() {
			_ = p.cfg.Client.Follow(following, p.key, func(l etcd.Listing) { p.observe(l, foreign) })
		})
	})
	followers.Go(func() { p.followNotice(following) })
	// A restore brings back keys that were deleted from this lease, such as a candidate's, on which all
	// candidates after it would wait.
	_, rewound := p.cfg.Client.Rewound().Load()
	followers.Go(func() {
		if event.Wait(following, rewound) {
			s.End(errWentBack)
		}
	})
	defer func() { cancel(); followers.Wait() }()
	defer p.held.Set(nil)
	defer p.lease.Set(clientv3.NoLease)

	pauses := backoff.Backoff{First: minPresencePause, Max: p.cfg.TTL / writesPerLease, Jitter: backoff.Apart}
	for {
		// Loaded before the write, so that a change during the write is not missed.
		shown, shownChanged := p.cfg.Shown.Load()
		_, foreignChanged := foreign.Load()
		resting, restsChanged := p.rests.Load()
		s.Beat()
		p.beat()
		if resting {
			return p.waitForChange(ctx, s, changes{})
		}
		retry, err := p.write(ctx, s, shown, &pauses)
		if err != nil {
			return err
		}
		if retry == nil {
			follow()
		}
		if err := p.waitForChange(ctx, s, changes{shownChanged, foreignChanged, restsChanged, retry}); err != nil {
			return err
		}
	}
}

// write makes one attempt. After a failure, retry reports when to make the next
// one: after longer and longer pauses, since an etcd that refuses writes is not helped
// by more of them. Only a duplicate node ID is an error: the session continues
// otherwise.
func (p *Presence) write(ctx context.Context, s *etcd.Session, shown Shown, pauses *backoff.Backoff) (retry <-chan time.Time, err error) {
	err = p.put(ctx, s, shown)
	var duplicate *DuplicateError
	switch {
	case err == nil:
		p.failures = 0
		pauses.Reset()
		return nil, nil
	case errors.As(err, &duplicate):
		return nil, err
	}
	pause := pauses.Next()
	if ctx.Err() == nil {
		p.failures++
		p.cfg.Log.Log(ctx, severity(p.failures), "presence not written, trying again", "in", pause, "err", err)
	}
	return time.After(pause), nil
}

// changes are the events after which the presence is written again. nil: never.
type changes struct {
	shown, foreign, rests <-chan struct{}
	retry                 <-chan time.Time
}

// waitForChange returns nil when a channel closes or retry fires, and the cause
// when the session ends.
func (p *Presence) waitForChange(ctx context.Context, s *etcd.Session, c changes) error {
	beat := time.NewTicker(s.TTL() / 3)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-beat.C:
			s.Beat()
			p.beat()
		case <-c.shown:
			return nil
		case <-c.foreign:
			return nil
		case <-c.rests:
			return nil
		case <-c.retry:
			return nil
		}
	}
}

// observe sets foreign if the key is missing or another instance's. hold then
// writes the key again, or finds the duplicate.
func (p *Presence) observe(l etcd.Listing, foreign *event.Value[bool]) {
	if decodePresence(l.Find(p.key).Value).Instance != p.cfg.Instance {
		foreign.Set(true)
	}
}

// put writes the key if it is missing, this instance's, or an older instance's on this machine.
// Otherwise it returns a *DuplicateError, or etcd.ErrChanged if another sidecar was faster.
func (p *Presence) put(ctx context.Context, s *etcd.Session, shown Shown) error {
	resp, err := p.cfg.Client.Get(ctx, p.key)
	if err != nil {
		return err
	}
	var revision int64 // 0: the key is missing
	if len(resp.Kvs) > 0 {
		kv := resp.Kvs[0]
		revision = kv.ModRevision
		if err := p.checkID(decodePresence(kv.Value), kv.ModRevision, verdictSince(kv.Value)); err != nil {
			return err
		}
	}
	now := shown.Presence
	now.Instance, now.MachineID, now.Host, now.Address, now.Written = p.cfg.Instance, p.cfg.MachineID, p.cfg.Host, p.cfg.Address, time.Now()
	value := encodePresence(now, shown.Since)
	txn, err := p.cfg.Client.Write(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(p.key), "=", revision)},
		clientv3.OpPut(p.key, string(value), clientv3.WithLease(s.Lease())))
	if err != nil {
		return fmt.Errorf("write presence: %w", err)
	}
	p.wrote = txn.Header.Revision
	if p.lease.Get() != s.Lease() {
		p.held.Set(s)
		p.lease.Set(s.Lease())
	}
	return nil
}

// checkID returns a *DuplicateError if this instance must leave the node ID to the
// instance whose presence is in etcd.
func (p *Presence) checkID(other protocol.Presence, revision int64, since time.Time) error {
	// A presence from before this one's is not newer: a restore brought it back.
	held := p.wrote != 0 && revision > p.wrote
	if !noderecord.MustYieldID(noderecord.DuplicateFacts{Holder: other, Instance: p.cfg.Instance, MachineID: p.cfg.MachineID, Held: held}) {
		return nil
	}
	detail := fmt.Sprintf("%s, instance %s", p.whereabouts(other), other.Instance)
	if !since.IsZero() {
		detail += fmt.Sprintf(", %s since %s", other.Reason, since.UTC().Format(time.RFC3339))
	}
	return &DuplicateError{Node: p.cfg.Node, Newcomer: !held, Detail: detail}
}
