package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Election campaigns while this node may, and leads when it is the first of the
// candidates.
type Election struct {
	cfg     Config
	metrics *metrics
	state   *event.Value[State]
	queue   *event.Value[etcd.Listing] // all candidates' keys; revision 0: not listed yet
	leader  *event.Value[Leader]
	// restored is when the queue was first listed after the store last went back. The
	// restore did not bring back a status that was written later.
	restored *event.Value[etcd.At]
	yield    yield
	// drainTime is how long after it was sent a request can take effect in the
	// API.
	drainTime time.Duration
}

const (
	minCampaignPause = 100 * time.Millisecond
	maxCampaignPause = 3 * time.Second
	// minQueuePause is the first pause between two reads of the queue, while the watch lags.
	minQueuePause = 4 * time.Millisecond
)

// New returns an election that this node does not take part in before Run.
func New(cfg Config) *Election {
	if cfg.Missing == nil {
		cfg.Missing = func(protocol.NodeID) time.Time { return time.Time{} }
	}
	e := &Election{
		cfg:       cfg,
		metrics:   newMetrics(cfg.Registerer),
		state:     event.New(State{Election: protocol.Ineligible, Since: time.Now()}),
		queue:     event.New(etcd.Listing{}),
		leader:    event.New(Leader{}),
		restored:  event.New(etcd.At{}),
		yield:     yield{pauses: backoff.Backoff{First: minYieldPause, Max: maxYieldPause}},
		drainTime: protocol.DrainTime(cfg.Local.Get().EtcdElectionTimeout),
	}
	e.metrics.show(protocol.Ineligible, time.Now())
	return e
}

func (e *Election) keys() keyspace.Keys { return keyspace.Under(e.cfg.Client.Prefix()) }

// State follows this node's part in the election.
func (e *Election) State() *event.Value[State] { return e.state }

// Leader follows the node that leads, as the watch sees it. It may lag.
func (e *Election) Leader() *event.Value[Leader] { return e.leader }

// Run takes part until ctx ends, and returns after this node gave up leadership. A
// lost leadership or an unreachable etcd is no error: Run takes part again. It
// ends by itself only with ErrJobStuck.
func (e *Election) Run(ctx context.Context) error {
	follow, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var followers sync.WaitGroup
	followers.Go(func() {
		// It ends only when follow does.
		_ = e.cfg.Client.Follow(follow, e.keys().Leaders(), e.observe)
	})
	followers.Go(func() { e.endRollbacks(follow) })
	// Run follows the queue until this node gave up leadership.
	defer func() { cancel(); followers.Wait() }()

	pauses := backoff.Backoff{First: minCampaignPause, Max: maxCampaignPause, Jitter: backoff.Apart}
	for {
		waited, err := e.awaitEligible(ctx)
		if err != nil {
			return err
		}
		if waited {
			pauses.Reset() // the observed fleet now contains the fact that ended the last campaign
		}
		if !backoff.Sleep(ctx, pauses.Pause()) {
			return ctx.Err()
		}
		began := time.Now()
		err = e.once(ctx)
		switch {
		case errors.Is(err, ErrJobStuck):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, errNoPresence):
			e.cfg.Log.Warn("campaign ended, trying again", "err", err)
		}
		e.slowDown(&pauses, time.Since(began), err)
	}
}

// slowDown makes the pause before the next campaign longer, after one that ended with err. It does so also after
// a resignation: the fleet that this node observes may lag behind the fact that it resigned for.
func (e *Election) slowDown(pauses *backoff.Backoff, lasted time.Duration, err error) {
	switch {
	case errors.Is(err, errNoPresence):
		// There was no campaign. A node that has just started may have been eligible before its presence was in etcd.
	case lasted > e.cfg.TTL:
		pauses.Reset() // that campaign worked for a while
	default:
		pauses.Next()
	}
}

// once campaigns on the lease of this node's presence. If there is none, it waits for one, and returns
// errNoPresence: meanwhile this node may have lost what makes it eligible.
func (e *Election) once(ctx context.Context) error {
	session, changed := e.cfg.Session.Load()
	if session == nil {
		event.Wait(ctx, changed)
		return errNoPresence
	}
	e.mayLead(true)
	defer e.mayLead(false) // before that, the key is deleted, or its lease given up and revoked, also after a panic
	defer e.showOut()
	return session.Share(ctx, e.campaign)
}

// rewinds returns how often the store went back.
func (e *Election) rewinds() int { return e.cfg.Client.Rewound().Get() }

// isRestored reports whether a restore may have brought back the status: the store
// went back while this sidecar ran, and the status was not written since.
func (e *Election) isRestored(v protocol.StatusView) bool {
	restored := e.restored.Get()
	return e.rewinds() > 0 && (restored.Rewinds != e.rewinds() || v.Revision <= restored.Revision)
}

// etcdPauses are the pauses between a leader's attempts to read from etcd or to write.
// They are short enough for the lease: the session ends if the leader's loop does not
// run.
func (e *Election) etcdPauses() backoff.Backoff {
	return backoff.Backoff{First: etcdPause, Max: max(etcdPause, e.cfg.TTL/3), Jitter: backoff.Apart}
}

// mayLead publishes whether this node may hold the leader's key, or get it at any moment.
// State changes earlier: while the key is being deleted, it does not show a leader.
func (e *Election) mayLead(may bool) {
	if e.cfg.MayLead != nil {
		e.cfg.MayLead.Set(may)
	}
}

// showOut shows that this node neither leads nor is a candidate.
func (e *Election) showOut() {
	e.setState(func(s State) State {
		if s.Election != protocol.Leading && s.Election != protocol.Campaigning {
			return s
		}
		return State{Election: protocol.Ineligible, Since: s.Since, Eligibility: s.Eligibility}
	})
}

// observe updates queue and leader. The candidate with the lowest create revision
// leads.
func (e *Election) observe(l etcd.Listing) {
	if l.Rewinds > e.restored.Get().Rewinds {
		e.restored.Set(l.At)
	}
	l = inOrder(l)
	e.queue.Set(l)
	var leader Leader
	if len(l.KVs) > 0 {
		leader = Leader{Node: protocol.NodeID(l.KVs[0].Value), Epoch: l.KVs[0].CreateRevision}
	}
	event.SetIfNew(e.leader, leader)
}

// inOrder sorts candidates.
func inOrder(l etcd.Listing) etcd.Listing {
	l.KVs = slices.Clone(l.KVs)
	slices.SortFunc(l.KVs, func(a, b *etcd.KV) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
	return l
}

// awaitEligible returns when this node may campaign (docs/protocol.md#eligibility)
// and its API is not known to be unreachable (docs/protocol.md#yielding). It
// reports whether it waited.
func (e *Election) awaitEligible(ctx context.Context) (waited bool, err error) {
	for ; ; waited = true {
		members, membersChanged := e.cfg.Fleet.Load()
		local, localChanged := e.cfg.Local.Load()
		eligibility := protocol.Eligible(members, local)
		state, shown := protocol.Ineligible, eligibility
		if e.yield.withdrawn {
			state = protocol.Withdrawn
			if eligibility.Eligible {
				shown = e.yield.problem
			}
		}
		e.setState(func(s State) State {
			s.Election, s.Eligibility = state, shown
			return s
		})
		switch {
		case !eligibility.Eligible:
			if !event.Wait(ctx, membersChanged, localChanged) {
				return waited, ctx.Err()
			}
		case e.yield.withdrawn:
			if err := e.awaitAPI(ctx); err != nil {
				return waited, err
			}
		default:
			return waited, nil
		}
	}
}

// campaign joins the queue, waits until it is first, and leads. It returns nil
// when this node may no longer campaign or resigned.
func (e *Election) campaign(ctx context.Context, s *etcd.Session) error {
	e.setState(func(st State) State { st.Election = protocol.Campaigning; return st })
	s.Outlast() // a candidate that waits keeps its place
	key := e.keys().Leader(int64(s.Lease()))
	rewinds := e.rewinds()
	epoch, err := e.enqueue(ctx, s, key)
	if err != nil {
		if !etcd.NotExecuted(err) {
			s.End(err) // the key may exist, or appear later
		}
		return err
	}
	l := e.newLeadership(s, key, epoch)
	l.rewinds = rewinds
	defer l.leaveQueue(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if first, err := e.awaitFirst(ctx, s, epoch); err != nil || !first {
		return err
	}
	return l.lead(ctx)
}

// leaveQueue deletes the candidate's key, or ends the session, and with it the presence. If the store
// went back, it ends the session: epochs of before may come again there, for this key.
func (l *leadership) leaveQueue(ctx context.Context) {
	switch {
	case l.e.rewinds() != l.rewinds:
		l.session.End(errWentBack)
	case !l.deleted:
		l.session.Delete(ctx, l.key, l.epoch)
	}
}

// enqueue creates the candidate's key and returns its create revision. The key
// cannot exist: each campaign deletes it, or ends the lease. A stop does not interrupt the write:
// without its answer, the presence would end with the lease, before the services of this node.
func (e *Election) enqueue(ctx context.Context, s *etcd.Session, key string) (int64, error) {
	local := e.cfg.Local.Get()
	answered, cancel := s.Linger(ctx)
	defer cancel()
	resp, err := e.cfg.Client.Txn(answered,
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(key, string(local.ID), clientv3.WithLease(s.Lease()))}, nil)
	switch {
	case err != nil:
		return 0, fmt.Errorf("enter the election: %w", err)
	case !resp.Succeeded:
		return 0, errors.New("enter the election: the candidate's key exists already")
	}
	return resp.Header.Revision, nil
}

// awaitFirst reports whether the candidate became the first; false: it may no longer
// campaign. lead confirms it. A candidate that becomes the first while its session is not
// valid waits until it is. The watch may not be open yet, or late. So the candidate reads the
// queue itself until the watch has reported its key.
func (e *Election) awaitFirst(ctx context.Context, s *etcd.Session, epoch int64) (bool, error) {
	rewinds, rewound := e.cfg.Client.Rewound().Load()
	pauses := backoff.Backoff{First: minQueuePause, Max: s.TTL() / 3, Jitter: backoff.Apart}
	for {
		queue, queueChanged := e.queue.Load()
		members, membersChanged := e.cfg.Fleet.Load()
		local, localChanged := e.cfg.Local.Load()
		wait := s.TTL() / 3
		if queue.Revision < epoch {
			s.Beat() // the read may take as long as a request may
			queue, wait = e.readQueue(ctx), pauses.Next()
		}
		if queue.Revision >= epoch {
			switch place(queue, epoch) {
			case 0:
				if s.Rely() {
					return true, nil
				}
				wait = etcdPause
			case -1:
				return false, fmt.Errorf("wait in the election: %w", etcd.ErrSessionLost)
			}
		}
		if !protocol.Eligible(members, local).Eligible {
			return false, nil
		}
		s.Beat()
		waitUntil(ctx, time.Now().Add(wait), []<-chan struct{}{rewound, queueChanged, membersChanged, localChanged})
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if e.cfg.Client.Rewound().Get() != rewinds {
			return false, errors.New("wait in the election: the store went back, and the candidate's key with it")
		}
	}
}

// readQueue reads the queue from etcd; revision 0: the read failed, and the watch or the next read decides.
func (e *Election) readQueue(ctx context.Context) etcd.Listing {
	resp, err := e.cfg.Client.Get(ctx, e.keys().Leaders(), clientv3.WithPrefix())
	if err != nil {
		e.cfg.Log.Debug("queue not read, waiting for the watch", "err", err)
		return etcd.Listing{}
	}
	return inOrder(etcd.ListingOf(resp))
}

// place returns how many candidates come before the candidate of epoch; -1: it is
// not in the queue.
func place(queue etcd.Listing, epoch int64) int {
	return slices.IndexFunc(queue.KVs, func(kv *etcd.KV) bool { return kv.CreateRevision == epoch })
}

// setState publishes a changed state, and logs the changes that people follow.
// Only Run's goroutine calls it.
func (e *Election) setState(change func(State) State) {
	was := e.state.Get()
	now := change(was)
	if now.same(was) {
		return
	}
	if was.Election != now.Election {
		now.Since = time.Now()
	}
	e.state.Set(now)
	e.metrics.wait(len(now.Step.Blockers), time.Now())
	if was.Election != now.Election {
		e.metrics.show(now.Election, now.Since)
		attrs := []any{"state", string(now.Election)}
		switch {
		case now.Eligibility.Reason != "":
			attrs = append(attrs, "reason", string(now.Eligibility.Reason), "message", now.Eligibility.Message)
		case now.Election == protocol.Ineligible: // the cause is logged by itself, such as that services stop
			attrs = append(attrs, "message", "its campaign ended")
		}
		e.cfg.Log.Info("election state changed", attrs...)
	}
	if was.Step.String() != now.Step.String() && now.Step.Kind != protocol.StepUnset {
		e.cfg.Log.Info("step decided", "step", now.Step.Kind.String(), "rule", now.Step.Rule,
			"message", now.Step.Message, "blockers", len(now.Step.Blockers))
	}
}
