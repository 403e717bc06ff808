package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/cluster/datadir"
	"github.com/lockstep-dev/lockstep/cluster/member"
	"github.com/lockstep-dev/lockstep/cluster/quorum"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// This file takes the steps by which a node becomes a member and leaves while everything
// runs (docs/protocol.md#membership). The worker in package role asks the protocol which
// one is next.

// ErrNotRunning is returned for a step while this node is not in its cluster.
var ErrNotRunning = errors.New("this node is not in its cluster")

// let lets steps of a flow be taken until ctx ends; nil: of none. It waits for the step
// that is being taken.
func (m *Manager) let(f *flow, ctx context.Context) { //nolint:revive // ctx is that of all steps that follow
	m.stepping.Lock()
	defer m.stepping.Unlock()
	m.running, m.until = f, ctx.Done()
	if f != nil {
		f.show = m.showProblem
	}
}

// Trouble shows why the next step about the member is not taken, or waits; empty: nothing
// is wrong.
func (m *Manager) Trouble(problem string) { m.showProblem(problem) }

// showProblem sets what is wrong while the state is Running.
func (m *Manager) showProblem(problem string) {
	if m.status.Get().Problem != problem {
		event.Update(m.status, func(s Status) Status { s.Problem = problem; return s })
	}
}

// step runs do with the flow, one at a time. Its context also ends when the manager stops.
func (m *Manager) step(ctx context.Context, do func(context.Context, *flow) error) error {
	m.stepping.Lock()
	defer m.stepping.Unlock()
	if m.running == nil {
		return ErrNotRunning
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	go func() { // ends with the step
		defer close(ended)
		select {
		case <-m.until:
			cancel()
		case <-ctx.Done():
		}
	}()
	m.running.steps.Lock()
	defer m.running.steps.Unlock()
	return do(ctx, m.running)
}

// MemberFacts returns what is known of this node's member. Known and Wanted are for the
// caller. If the members do not answer, Listed stays unknown, and the error has why.
func (m *Manager) MemberFacts(ctx context.Context) (facts protocol.MemberFacts, err error) {
	err = m.step(ctx, func(ctx context.Context, f *flow) error {
		facts, err = f.memberFacts(ctx)
		return err
	})
	return facts, err
}

// TakeMemberStep takes a step about this node's member. It may be taken again after an
// error, and after the process was killed anywhere in it.
func (m *Manager) TakeMemberStep(ctx context.Context, s protocol.MemberStep) error {
	return m.step(ctx, func(ctx context.Context, f *flow) error {
		err := f.takeMemberStep(ctx, s)
		if err == nil {
			f.show("")
			f.log.Debug("step done", "flow", "change", "step", s.String())
			afterStep("change", s.String())
		}
		return err
	})
}

func (f *flow) takeMemberStep(ctx context.Context, s protocol.MemberStep) error {
	switch s {
	case protocol.BeginAdding:
		if err := f.sameCluster(ctx); err != nil {
			return err // the cluster was restored while this sidecar ran
		}
		return f.writeMarker(func(m *datadir.Marker) { m.Phase = datadir.Adding })
	case protocol.AddLearner:
		return f.addLearner(ctx)
	case protocol.StartMember:
		return f.startAgain(ctx)
	case protocol.AwaitVote:
		return f.awaitVote(ctx)
	case protocol.EndAdding:
		return f.endAdding(ctx)
	case protocol.BeginLeaving:
		return f.writeMarker(func(m *datadir.Marker) { m.Phase = datadir.Leaving })
	case protocol.RemoveMember:
		return f.removeMember(ctx)
	case protocol.StopMember:
		f.endMember()
		f.memberState.Set(member.State{})
		return nil
	case protocol.MoveData:
		return f.moveData(ctx)
	case protocol.EndLeaving:
		return f.endLeaving(ctx)
	default: // it waits
		return nil
	}
}

// memberFacts asks for the members only where that matters.
func (f *flow) memberFacts(ctx context.Context) (protocol.MemberFacts, error) {
	facts := protocol.MemberFacts{Phase: phaseOf(f.marker.Phase), Data: f.dir.EtcdBegun()}
	if run := f.current(); run != nil {
		facts.Runs = !run.ended()
		if run.ended() && errors.Is(run.err, member.ErrRemoved) && f.marker.Phase.Changing() {
			f.gone = f.marker.MemberID
		}
	}
	var err error
	switch {
	case f.marker.Phase == datadir.WithoutMember:
		facts.Listed = protocol.NotListed
	case !f.marker.Phase.Changing():
	case f.gone != "" && f.gone == f.marker.MemberID:
		facts.Listed = protocol.NotListed
	default:
		facts.Listed, facts.Decided, err = f.listed(ctx)
	}
	if facts.Listed == protocol.NotListed && f.marker.Phase != datadir.Adding {
		facts.Data = present(f.dir.Etcd()) // also what an etcd left that never began
	}
	return facts, err
}

// listed returns what the list of the members has of this node's member. Before the marker
// has its ID, it may have been added already.
func (f *flow) listed(ctx context.Context) (protocol.Listed, bool, error) {
	id, known := keyspace.ParseMemberID(f.marker.MemberID)
	if !known {
		want, err := f.ownMember()
		if err != nil {
			return protocol.ListedUnknown, false, err
		}
		if id, err = quorum.Find(ctx, f.client, want); err != nil {
			return protocol.ListedUnknown, false, err
		}
	}
	m, err := quorum.Read(ctx, f.client, id)
	switch {
	case err != nil:
		return protocol.ListedUnknown, false, err
	case m == nil:
		return protocol.NotListed, false, nil
	case m.Learner:
		return protocol.ListedLearner, m.Leaving, nil
	}
	return protocol.ListedVoter, m.Leaving, nil
}

// addLearner has this node added, or finds that an earlier attempt has added it.
func (f *flow) addLearner(ctx context.Context) error {
	if err := f.sameCluster(ctx); err != nil {
		return err
	}
	want, err := f.ownMember()
	if err != nil {
		return err
	}
	want.Added = time.Now()
	added, err := quorum.Add(ctx, f.client, quorum.Addition{Node: want, After: func(done string) { afterStep("add", done) }})
	if err != nil {
		return err
	}
	f.endMember() // of an attempt that did not begin
	f.joining = added.Members
	return f.writeMarker(func(m *datadir.Marker) { m.MemberID = keyspace.MemberID(added.ID) })
}

// startAgain starts the member. One that has no data yet begins with the members as they
// are now. While it is a learner, the client uses the others.
func (f *flow) startAgain(ctx context.Context) error {
	f.endMember() // it ended
	if f.dir.EtcdBegun() {
		return startOldMember(ctx, f)
	}
	if f.joining == nil {
		if err := f.addLearner(ctx); err != nil {
			return err
		}
	}
	if err := f.clearUnbegun(); err != nil {
		return err
	}
	err := f.startMember(ctx, member.Spec{InitialCluster: f.initialCluster(), Existing: true, Patience: patience})
	if err != nil {
		return err
	}
	err = f.awaitReady(ctx, f.didNotBegin)
	if _, again := errors.AsType[transientError](err); again {
		f.endMember()
		f.joining = nil // others may have been added meanwhile
	}
	return err
}

// didNotBegin returns an error if etcd has ended before it had a log.
func (f *flow) didNotBegin(now member.State) error {
	if now.LastExit == "" || f.dir.EtcdBegun() {
		return nil
	}
	return transient(fmt.Errorf("the etcd member did not begin, asking for the members again: %s", strings.TrimSpace(now.LastExit)))
}

// votePatience is how long one step waits for the vote. Then the members are asked again:
// a learner that makes no progress is removed.
const votePatience = 2 * time.Second

func (f *flow) awaitVote(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < votePatience; {
		if run := f.current(); run == nil || run.ended() {
			return nil
		}
		status, err := f.client.MemberStatus(ctx, f.marker.ClientURL())
		if err == nil && !status.Learner && status.Leader != 0 {
			return nil
		}
		if !backoff.Sleep(ctx, voterPause) {
			return ctx.Err()
		}
	}
	return nil
}

// endAdding makes the member the one that this sidecar uses.
func (f *flow) endAdding(ctx context.Context) error {
	if err := awaitMember(ctx, f); err != nil {
		return err
	}
	if err := announce(ctx, f); err != nil {
		return err
	}
	if err := markMember(ctx, f); err != nil {
		return err
	}
	f.joining = nil
	f.shared.useOwn()
	f.log.Info("this node is a member of etcd now", "member", f.marker.MemberID)
	return nil
}

// removeMember has the member removed. The client uses the other members from before that
// on, also if the removal fails: what the services of this node use does not change with
// each attempt. If the node gets the role back, endAdding uses its own member again.
func (f *flow) removeMember(ctx context.Context) error {
	_, err := quorum.Remove(ctx, f.client, quorum.Removal{
		Name: f.marker.MemberID, Leaves: true, Dial: f.dial,
		Before: func() error { f.shared.useOthers(); return nil },
		After:  func(done string) { afterStep("remove", done) },
	})
	if errors.Is(err, etcd.ErrNoMember) {
		return nil
	}
	if err != nil {
		return err
	}
	f.log.Info("this node has left the members of etcd", "member", f.marker.MemberID)
	return nil
}

// dial returns a client of one member.
func (f *flow) dial(clientURL string) (*etcd.Client, error) {
	cfg := f.cfg.EtcdConfig(f.client.Prefix())
	cfg.Endpoints = []string{clientURL}
	return etcd.NewClient(cfg)
}

// moveData moves the data of a member away that was removed. The list of the members is asked
// again: the step may have been decided by an old one.
func (f *flow) moveData(ctx context.Context) error {
	f.endMember() // its process has ended
	f.memberState.Set(member.State{})
	facts, err := f.memberFacts(ctx)
	if err != nil {
		return err
	}
	return f.moveAway(facts.Listed)
}

// endLeaving ends the removal. What the records have of the member is deleted, in case
// the sidecar was killed before it did that.
func (f *flow) endLeaving(ctx context.Context) error {
	f.endMember()
	f.shared.useOthers()
	if id, known := keyspace.ParseMemberID(f.marker.MemberID); known {
		if err := quorum.Forget(ctx, f.client, id); err != nil {
			return err
		}
	}
	return f.writeMarker(func(m *datadir.Marker) { m.Phase, m.MemberID = datadir.WithoutMember, "" })
}
