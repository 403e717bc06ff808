package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/report"
)

// Observed is a member of the cluster, as this sidecar observes it.
type Observed struct {
	report.Member
	// Full: etcd refuses writes, because the database of a member reached its quota.
	Full bool
	// LeavingSince is when this sidecar first found that its removal was decided; null: it was not.
	LeavingSince report.Timestamp
	// ForGood: an operator decided that. The cluster refuses the node's key.
	ForGood bool
}

// NoLeader reports whether it answers, and cannot serve without a leader.
func (o Observed) NoLeader() bool { return !o.Healthy && strings.Contains(o.Problem, "no leader") }

const (
	// The pauses between two questions to all members.
	healthyPause   = 10 * time.Second
	unhealthyPause = 2 * time.Second
	// observeTimeout bounds the questions to all members.
	observeTimeout = 4 * time.Second
)

// observer asks the members how they are, and publishes that.
type observer struct {
	client    *etcd.Client
	directory *members.Directory
	observed  *event.Value[[]Observed]
}

// run asks again and again, until ctx ends.
func (w *observer) run(ctx context.Context) error {
	for {
		list, listChanged := w.directory.List().Load()
		now := keepSince(w.ask(ctx, list), list, w.observed.Get(), time.Now())
		if !slices.Equal(now, w.observed.Get()) && ctx.Err() == nil {
			w.observed.Set(now)
		}
		pause := healthyPause
		if slices.ContainsFunc(now, func(o Observed) bool { return !o.Healthy }) {
			pause = unhealthyPause
		}
		if !event.WaitFor(ctx, pause, listChanged) {
			return ctx.Err()
		}
	}
}

// ask returns the reports of the members. If none answers in time, it returns the
// members in list, each with a problem.
func (w *observer) ask(ctx context.Context, list []members.Member) []Observed {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	views, err := quorum.ListKnown(ctx, w.client)
	var out []Observed
	if err != nil {
		problem := unlisted
		if len(list) == 1 { // no other one was asked
			problem = unanswered
		}
		for _, m := range list {
			member := report.Member{ID: m.ID, Node: m.Node, Address: m.Address, Learner: m.Learner, Problem: problem}
			out = append(out, Observed{Member: member})
		}
		return byNode(out)
	}
	for _, v := range views {
		o := Observed{
			Member: report.Member{
				ID: keyspace.MemberID(v.ID), Node: string(v.Node), Address: v.Address,
				Learner: v.Learner, Leader: v.Leader, Healthy: v.Healthy, Problem: v.Problem,
				DBSize: hundredths(v.Status.DBSize, v.Status.Quota), Quota: v.Status.Quota,
			},
			Full: v.Status.Full,
		}
		if i := slices.IndexFunc(list, func(m members.Member) bool { return m.ID == o.ID }); i >= 0 {
			o.Node, o.Address = list[i].Node, list[i].Address
		}
		out = append(out, o)
	}
	return byNode(out)
}

// hundredths rounds a size down to hundredths of the quota; without one it is 0.
func hundredths(size, quota int64) int64 {
	if hundredth := quota / 100; hundredth > 0 {
		return size / hundredth * hundredth
	}
	return 0
}

const (
	// unanswered is the problem of a member that does not answer.
	unanswered = "it does not answer"
	// unlisted is the problem of each member while this sidecar gets no list of them in time: it may have asked one that is
	// down, and knows nothing of the others.
	unlisted = "no member answered this sidecar in time"
)

// keepSince sets Since of the members that are not healthy, and LeavingSince of those that are leaving
// by the list: to at, or to the time in before if that was so then.
func keepSince(now []Observed, list []members.Member, before []Observed, at time.Time) []Observed {
	for i, o := range now {
		var was Observed
		if k := slices.IndexFunc(before, func(b Observed) bool { return b.ID == o.ID }); k >= 0 {
			was = before[k]
		}
		if !o.Healthy {
			now[i].Since = cmp.Or(was.Since, report.At(at))
		}
		if k := slices.IndexFunc(list, func(m members.Member) bool { return m.ID == o.ID && m.Leaving }); k >= 0 {
			now[i].LeavingSince, now[i].ForGood = cmp.Or(was.LeavingSince, report.At(at)), list[k].ForGood
		}
	}
	return now
}

// byNode sorts members as people expect them.
func byNode(members []Observed) []Observed {
	sorting.By(members, func(a, b Observed) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID)) })
	return members
}

// Voters returns the voters of a cluster that the sidecars run, and whether they answer. The channel is closed when
// they change.
func (m *Manager) Voters() ([]protocol.Voter, <-chan struct{}) {
	members, changed := m.observed.Load()
	var out []protocol.Voter
	for _, o := range members {
		if !o.Learner {
			out = append(out, protocol.Voter{Name: o.Node, Healthy: o.Healthy})
		}
	}
	return out, changed
}

// InCluster returns a worker that, if the sidecars run etcd, waits until this node has reached its
// cluster, and then runs. Before that, the data directory may be another sidecar's: with its
// certificates this one would reach the same etcd, and take over the node ID
// (docs/protocol-nodes.md#duplicate-ids).
func (m *Manager) InCluster(run func(context.Context) error) func(context.Context) error {
	if m.cfg.Embedded == nil {
		return run
	}
	return func(ctx context.Context) error {
		if err := m.WaitFinished(ctx); err != nil {
			<-ctx.Done() // the state Failed ends the sidecar
			return ctx.Err()
		}
		return run(ctx)
	}
}

// HasVoter reports whether this node runs a voting member. Then it holds the key of the CA, which a
// restore needs.
func (m *Manager) HasVoter() bool {
	own := func(o Observed) bool { return m.cfg.Embedded != nil && o.Node == m.cfg.Embedded.Node && !o.Learner }
	return m.Membership().Get().Phase == membership.Working && slices.ContainsFunc(m.observed.Get(), own)
}
