package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Election campaigns while this node may, and leads when its turn has come.
type Election struct {
	cfg     Config
	metrics *metrics
	state   *event.Value[State]
	queue   *event.Value[etcd.Listing] // all candidates' keys; revision 0: not listed yet
	leader  *event.Value[Leader]
	yield   yield
}

const (
	minCampaignPause = 100 * time.Millisecond
	maxCampaignPause = 3 * time.Second
)

// New returns an election that does not take part yet.
func New(cfg Config) *Election {
	if cfg.DrainTime == 0 {
		cfg.DrainTime = protocol.DrainTime
	}
	e := &Election{
		cfg:     cfg,
		metrics: newMetrics(cfg.Registerer),
		state:   event.New(State{Election: protocol.Ineligible}),
		queue:   event.New(etcd.Listing{}),
		leader:  event.New(Leader{}),
		yield:   yield{after: cfg.YieldAfter},
	}
	e.metrics.show(protocol.Ineligible)
	return e
}

// State follows the own part in the election.
func (e *Election) State() *event.Value[State] { return e.state }

// Leader follows who leads, as the watch sees it.
func (e *Election) Leader() *event.Value[Leader] { return e.leader }

// Run takes part until ctx ends; then leadership has been given up. Losing it,
// or etcd, is no error: it takes part again.
func (e *Election) Run(ctx context.Context) error {
	follow, cancel := context.WithCancel(context.WithoutCancel(ctx))
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		// Its only end is that of follow.
		_ = e.cfg.Client.Follow(follow, e.cfg.Client.Keys.Leaders(), e.observe)
	}()
	// The queue is followed until leadership has been given up.
	defer func() { cancel(); <-followed }()

	var wait time.Duration
	for {
		waited, err := e.awaitEligible(ctx)
		if err != nil {
			return err
		}
		if waited {
			wait = 0 // the observed fleet has caught up with what ended the last one
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
		began := time.Now()
		err = e.cfg.Client.WithSession(ctx, e.cfg.TTL, e.campaign)
		e.out()
		switch {
		case errors.Is(err, ErrWedged):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			e.cfg.Log.Warn("campaign ended, trying again", "err", err)
		}
		// Also after a resignation: what this node observes may lag behind what
		// it resigned for.
		wait = min(max(2*wait, minCampaignPause), maxCampaignPause)
		if time.Since(began) > e.cfg.TTL {
			wait = 0
		}
	}
}

// out shows that this node neither leads nor waits to.
func (e *Election) out() {
	e.setState(func(s State) State {
		if s.Election != protocol.Leading && s.Election != protocol.Campaigning {
			return s
		}
		return State{Election: protocol.Ineligible, Eligibility: s.Eligibility}
	})
}

// observe keeps queue and leader: the candidate with the lowest create
// revision leads.
func (e *Election) observe(l etcd.Listing) {
	l.KVs = slices.Clone(l.KVs)
	slices.SortFunc(l.KVs, func(a, b etcd.KV) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
	e.queue.Set(l)
	var leader Leader
	if len(l.KVs) > 0 {
		leader = Leader{Node: protocol.NodeID(l.KVs[0].Value), Epoch: l.KVs[0].CreateRevision}
	}
	if leader != e.leader.Get() {
		e.leader.Set(leader)
	}
}

// awaitEligible returns when this node may campaign (DESIGN 4.4) and its API
// is not known to be out of reach (4.7). It reports whether it had to wait.
func (e *Election) awaitEligible(ctx context.Context) (waited bool, err error) {
	for ; ; waited = true {
		fleet, fleetChanged := e.cfg.Fleet.Load()
		local, localChanged := e.cfg.Local.Load()
		eligibility := protocol.Eligible(fleet, local)
		state := protocol.Ineligible
		if e.yield.withdrawn {
			state = protocol.Withdrawn
		}
		e.setState(func(s State) State {
			s.Election, s.Eligibility = state, eligibility
			return s
		})
		if eligibility.Eligible {
			if !e.yield.withdrawn {
				return waited, nil
			}
			if err := e.awaitAPI(ctx); err != nil {
				return waited, err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return waited, ctx.Err()
		case <-fleetChanged:
		case <-localChanged:
		}
	}
}

// campaign queues up, waits for its turn, and leads. It returns nil when this
// node may no longer campaign or has resigned.
func (e *Election) campaign(ctx context.Context, s *etcd.Session) error {
	e.setState(func(st State) State { st.Election = protocol.Campaigning; return st })
	key := e.cfg.Client.Keys.Leader(int64(s.Lease()))
	epoch, err := e.enqueue(ctx, s, key)
	if err != nil {
		return err
	}
	if mine, err := e.awaitTurn(ctx, s, epoch); err != nil || !mine {
		return err
	}
	return e.lead(ctx, s, key, epoch)
}

// enqueue creates the candidate's key and returns its create revision. The key
// cannot be there: no other session has this lease.
func (e *Election) enqueue(ctx context.Context, s *etcd.Session, key string) (int64, error) {
	local := e.cfg.Local.Get()
	resp, err := e.cfg.Client.Txn(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(key, string(local.ID), clientv3.WithLease(s.Lease()))}, nil)
	switch {
	case err != nil:
		return 0, fmt.Errorf("enter the election: %w", err)
	case !resp.Succeeded:
		return 0, errors.New("enter the election: the candidate's key is there already")
	}
	return resp.Header.Revision, nil
}

// awaitTurn reports whether the candidate has become the first; false: it may
// no longer campaign. That it is first is only what the watch says: lead
// confirms it.
func (e *Election) awaitTurn(ctx context.Context, s *etcd.Session, epoch int64) (bool, error) {
	beat := time.NewTicker(s.TTL() / 3)
	defer beat.Stop()
	_, rewound := e.cfg.Client.Rewound().Load()
	for {
		queue, queueChanged := e.queue.Load()
		fleet, fleetChanged := e.cfg.Fleet.Load()
		local, localChanged := e.cfg.Local.Load()
		if queue.Revision >= epoch {
			switch place(queue, epoch) {
			case 0:
				return true, nil
			case -1:
				return false, fmt.Errorf("wait in the election: %w", etcd.ErrSessionLost)
			}
		}
		eligibility := protocol.Eligible(fleet, local)
		if !eligibility.Eligible {
			return false, nil
		}
		s.Beat()
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-rewound:
			return false, errors.New("wait in the election: the store went back, and the candidate's key with it")
		case <-queueChanged:
		case <-fleetChanged:
		case <-localChanged:
		case <-beat.C:
		}
	}
}

// place returns how many candidates stand before the one of epoch, and -1 where
// it does not stand in the queue.
func place(queue etcd.Listing, epoch int64) int {
	return slices.IndexFunc(queue.KVs, func(kv etcd.KV) bool { return kv.CreateRevision == epoch })
}

// setState is called by Run's goroutine alone.
func (e *Election) setState(change func(State) State) {
	was := e.state.Get()
	now := change(was)
	if now.same(was) {
		return
	}
	e.state.Set(now)
	e.metrics.blockers.Set(float64(len(now.Step.Blockers)))
	if was.Election != now.Election {
		e.metrics.show(now.Election)
		e.cfg.Log.Info("election state changed", "state", string(now.Election), "reason", string(now.Eligibility.Reason))
	}
	if was.Step.String() != now.Step.String() && now.Step.Kind != protocol.StepUnset {
		e.cfg.Log.Info("step", "step", now.Step.Kind.String(), "rule", now.Step.Rule,
			"message", now.Step.Message, "blockers", len(now.Step.Blockers))
	}
}

// pause waits for d or until ctx ends, and reports whether ctx still stands.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
