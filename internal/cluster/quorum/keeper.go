package quorum

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// KeeperConfig configures a Keeper.
type KeeperConfig struct {
	Client *etcd.Client
	// Local returns the client URL of the member on this node. The keeper works alone while
	// that member is etcd's leader, and else only in the place of a keeper that does nothing.
	Local func() string
	// EvictAfter is how long a learner may make no progress. Zero: 5 minutes.
	EvictAfter time.Duration
	// PromoteAfter is how long a learner stays one at least, for tests that end it meanwhile. Zero: no
	// longer than it needs.
	PromoteAfter time.Duration
	Log          *slog.Logger
	Registerer   prometheus.Registerer // nil: no metrics
}

const (
	defaultEvictAfter = 5 * time.Minute
	// hurry is the time after a member was added in which it usually catches up; then
	// the keeper asks more often.
	hurry      = 15 * time.Second
	hurryPause = 75 * time.Millisecond
	calmPause  = time.Second
	// scanPause is the time between two lists of the members, for learners without a
	// record: the sidecar that added them ended before it wrote one.
	scanPause = 30 * time.Second
)

// Keeper makes learners voters once they are caught up, and removes those that make no
// progress. Every sidecar with a member runs one. The Keeper beside etcd's leader works; if it
// hangs, the others make voters in its place (docs/protocol-membership.md#learners).
type Keeper struct {
	cfg      KeeperConfig
	keys     keyspace.Keys
	metrics  *metrics
	learners *event.Value[[]uint64] // by their keys; 0: a key without an ID

	// Only the goroutine of keep uses these.
	progress map[uint64]*progress
	leader   uint64 // the member that led in the last round; 0: none, or it is unknown
	led      bool   // that was the local member
}

// progress is the progress of a learner, as this sidecar observed it.
type progress struct {
	first   time.Time // when it was observed first
	since   time.Time // when it was last better than before
	synced  time.Time // since when it could vote; zero: it could not
	started bool
	applied uint64
}

// NewKeeper returns a keeper that does nothing yet.
func NewKeeper(cfg KeeperConfig) *Keeper {
	cfg.EvictAfter = cmp.Or(cfg.EvictAfter, defaultEvictAfter)
	return &Keeper{
		cfg: cfg, keys: keyspace.Under(cfg.Client.Prefix()), metrics: newMetrics(cfg.Registerer),
		learners: event.New[[]uint64](nil), progress: map[uint64]*progress{},
	}
}

// Run works until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return k.cfg.Client.Follow(ctx, k.keys.ClusterLearners(), func(l etcd.Listing) {
			var now []uint64
			for _, kv := range l.KVs {
				now = append(now, keyspace.MemberOf(kv.Key))
			}
			k.learners.Set(now)
		})
	})
	group.Go(func() error { return k.keep(ctx) })
	return group.Wait()
}

func (k *Keeper) keep(ctx context.Context) error {
	for {
		_, changed := k.learners.Load()
		pause, err := k.round(ctx)
		if err != nil && ctx.Err() == nil {
			k.cfg.Log.Debug("the learners were not checked, trying again", "err", err)
		}
		if !event.WaitFor(ctx, pause, changed) {
			return ctx.Err()
		}
		select {
		case <-changed:
			backoff.Sleep(ctx, hurryPause) // the learner must start first
		default:
		}
	}
}

// round takes one step about each learner, if one is possible now, and returns the time
// until the next round.
func (k *Keeper) round(ctx context.Context) (time.Duration, error) {
	recorded := k.learners.Get()
	local, err := k.cfg.Client.MemberStatus(ctx, k.cfg.Local())
	k.follow(local, err)
	pause := scanPause
	if len(recorded) > 0 && !k.led {
		pause = calmPause // the leader may change, or its sidecar may hang
	}
	if err != nil || local.Leader == 0 || local.Learner {
		return pause, err
	}
	members, err := k.cfg.Client.KnownMembers(ctx)
	if err != nil {
		return calmPause, err
	}
	k.forgetProgress(members)
	var errs []error
	for _, m := range members {
		if m.Learner {
			errs = append(errs, k.keepLearner(ctx, m, local))
			pause = min(pause, k.pauseFor(m.ID))
		}
	}
	if k.led {
		errs = append(errs, k.forget(ctx, members, recorded))
	}
	if k.led && pause == scanPause {
		errs = append(errs, k.forgetRemoved(ctx, members))
	}
	return pause, errors.Join(errs...)
}

// follow notes which member leads. Under another leader, all waits begin again: its sidecar has its time
// first.
func (k *Keeper) follow(local etcd.MemberStatus, err error) {
	if err != nil {
		local = etcd.MemberStatus{}
	}
	if local.Leader == 0 || local.Leader != k.leader {
		clear(k.progress)
	}
	k.leader, k.led = local.Leader, local.Leader != 0 && local.Leader == local.ID
}

// forgetProgress forgets the members that are no learners any more, for example because the keeper of
// another node made voters of them.
func (k *Keeper) forgetProgress(known []etcd.Member) {
	maps.DeleteFunc(k.progress, func(id uint64, _ *progress) bool {
		return !slices.ContainsFunc(known, func(m etcd.Member) bool { return m.ID == id && m.Learner })
	})
}

// forgetRemoved deletes the records of members that were removed, if the command that removed them
// was killed before it did that: each node would keep them as servers. It reads the records first: a
// member that was leaving then and is not listed since is removed for good.
func (k *Keeper) forgetRemoved(ctx context.Context, known []etcd.Member) error {
	s, err := readStored(ctx, k.cfg.Client)
	if err != nil {
		return err
	}
	stays := func(listed []etcd.Member) func(uint64, record.Member) bool {
		return func(id uint64, m record.Member) bool {
			return !m.Leaving || slices.ContainsFunc(listed, func(l etcd.Member) bool { return l.ID == id })
		}
	}
	if maps.DeleteFunc(s.members, stays(known)); len(s.members) == 0 {
		return nil
	}
	listed, err := k.cfg.Client.Members(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(s.members, stays(listed))
	for id := range s.members {
		if err := Forget(ctx, k.cfg.Client, id); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) pauseFor(id uint64) time.Duration {
	if p, found := k.progress[id]; !k.led || found && time.Since(p.first) > hurry {
		return calmPause
	}
	return hurryPause
}

// keepLearner takes the next step about a learner.
func (k *Keeper) keepLearner(ctx context.Context, m etcd.Member, local etcd.MemberStatus) error {
	facts := k.observe(ctx, m, local)
	rec, err := k.record(ctx, m.ID)
	if err != nil {
		return err
	}
	facts.Leaving = rec.Leaving
	step := membership.NextLearnerStep(facts)
	if step == membership.PromoteLearner && time.Since(k.progress[m.ID].first) >= k.cfg.PromoteAfter {
		err := k.cfg.Client.PromoteMember(ctx, m.ID)
		if err == nil || errors.Is(err, etcd.ErrNoLearner) {
			return k.promoted(ctx, m)
		}
		if !errors.Is(err, etcd.ErrBehind) {
			return err
		}
		facts.Behind = true
		step = membership.NextLearnerStep(facts)
		k.behind(m.ID)
	}
	if step == membership.EvictLearner {
		return k.evict(ctx, m, rec)
	}
	return nil
}

// observe asks a learner for its progress, because etcd logs an error for each promotion
// that comes too early.
func (k *Keeper) observe(ctx context.Context, m etcd.Member, local etcd.MemberStatus) membership.LearnerFacts {
	p := k.progress[m.ID]
	if p == nil {
		p = &progress{first: time.Now(), since: time.Now()}
		k.progress[m.ID] = p
	}
	facts := membership.LearnerFacts{Leads: k.led, Index: local.Index, Patience: k.cfg.EvictAfter}
	if m.Name != "" && len(m.ClientURLs) > 0 {
		limited, cancel := context.WithTimeout(ctx, statusTimeout)
		status, err := k.cfg.Client.MemberStatus(limited, m.ClientURLs[0])
		cancel()
		if err == nil && status.ID == m.ID {
			if !p.started || status.Applied > p.applied {
				p.since = time.Now()
			}
			p.started, p.applied = true, max(p.applied, status.Applied)
			facts.Answers, facts.Applied = true, status.Applied
		}
	}
	switch {
	case !facts.InSync():
		p.synced = time.Time{}
	case p.synced.IsZero():
		p.synced = time.Now()
	default:
		facts.Waits = time.Since(p.synced)
	}
	facts.Idle = time.Since(p.since)
	return facts
}

// behind notes that etcd refused a learner: in the place of the leader's keeper, this one waits again
// before it asks.
func (k *Keeper) behind(id uint64) { k.progress[id].synced = time.Time{} }

func (k *Keeper) promoted(ctx context.Context, m etcd.Member) error {
	took := time.Since(k.progress[m.ID].first).Round(time.Millisecond)
	k.cfg.Log.Info("a member caught up and votes now", "member", keyspace.MemberID(m.ID), "name", m.Name, "duration", took)
	k.metrics.changed(resultPromoted)
	delete(k.progress, m.ID)
	return write(ctx, k.cfg.Client, clientv3.OpDelete(k.keys.ClusterLearner(m.ID)))
}

// evict removes a learner that makes no progress, so that others can join, or one that is
// leaving. evict first writes into its record that it is leaving
// (docs/protocol-membership.md#membership).
func (k *Keeper) evict(ctx context.Context, m etcd.Member, rec learnerRecord) error {
	if err := k.writeLeaving(ctx, m.ID, rec); err != nil {
		return err
	}
	err := k.cfg.Client.RemoveMember(ctx, m.ID)
	if err != nil && !errors.Is(err, etcd.ErrNoMember) {
		return err
	}
	if rec.Leaving {
		k.cfg.Log.Info("removed a member that was leaving before it voted", "member", keyspace.MemberID(m.ID), "name", m.Name)
	} else {
		k.cfg.Log.Warn("removed a member that did not catch up; start its sidecar again to join again",
			"member", keyspace.MemberID(m.ID), "name", m.Name, "urls", m.PeerURLs, "after", k.cfg.EvictAfter)
	}
	k.metrics.changed(resultEvicted)
	delete(k.progress, m.ID)
	return Forget(ctx, k.cfg.Client, m.ID)
}

// learnerRecord is the record of a learner.
type learnerRecord struct {
	record.Member
	revision int64 // its mod revision; 0: there is none
}

// record reads the record of a learner. One that is corrupt counts as missing.
func (k *Keeper) record(ctx context.Context, id uint64) (learnerRecord, error) {
	key := k.keys.ClusterMember(id)
	resp, err := k.cfg.Client.Get(ctx, key)
	if err != nil || len(resp.Kvs) == 0 {
		return learnerRecord{}, err
	}
	m, err := record.DecodeMember(key, resp.Kvs[0].Value)
	if err != nil {
		return learnerRecord{revision: resp.Kvs[0].ModRevision}, nil //nolint:nilerr // nothing in it is worth keeping
	}
	return learnerRecord{m, resp.Kvs[0].ModRevision}, nil
}

// writeLeaving writes into a learner's record that it is leaving. A learner without a record
// gets one without a node: else its node would adopt it while it is being removed.
func (k *Keeper) writeLeaving(ctx context.Context, id uint64, rec learnerRecord) error {
	if rec.Leaving {
		return nil
	}
	key := k.keys.ClusterMember(id)
	rec.ID, rec.Leaving = id, true
	_, err := k.cfg.Client.Write(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", rec.revision)},
		clientv3.OpPut(key, string(record.EncodeMember(rec.Member))))
	return err
}

// forget deletes the records of learners that are voters, or no members, by now.
func (k *Keeper) forget(ctx context.Context, members []etcd.Member, recorded []uint64) error {
	for _, id := range recorded {
		i := slices.IndexFunc(members, func(m etcd.Member) bool { return m.ID == id })
		switch {
		case i >= 0 && members[i].Learner:
			continue
		case i >= 0 || id == 0:
			if err := write(ctx, k.cfg.Client, clientv3.OpDelete(k.keys.ClusterLearner(id))); err != nil {
				return err
			}
		default:
			if err := Forget(ctx, k.cfg.Client, id); err != nil {
				return err
			}
		}
	}
	return nil
}
