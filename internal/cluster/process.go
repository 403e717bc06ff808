package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// process starts the etcd member of a resident, and waits until it is ready and votes.
type process struct {
	*resident
	cfg    *Embedded
	client *etcd.Client
	same   *sameness
	log    *slog.Logger // without a worker
	// supervise is newSupervisor, or makes a member without a process in tests.
	supervise func(member.Config) supervisor
	// show sets the problem in the status.
	show func(problem string)
	// state and measures follow the process of the member.
	state    *event.Value[member.State]
	measures *event.Value[member.Measures]
}

// startOld starts a member that has a log. etcd then ignores InitialCluster.
func (p *process) startOld(ctx context.Context) error {
	return p.start(ctx, member.Spec{InitialCluster: initialCluster(p.marker, nil), Existing: true})
}

// startJoined starts a member that the members in joining have added.
func (p *process) startJoined(ctx context.Context, joining []etcd.Member) error {
	return p.start(ctx, member.Spec{InitialCluster: initialCluster(p.marker, joining), Existing: true, Patience: patience})
}

// patience is the Spec.Patience of a learner's first process. It needs 20 ms on a machine
// without other load.
const patience = 300 * time.Millisecond

// start starts the member of this directory, and keeps it running. It runs longer than ctx, the
// step's context: endMember ends it.
func (p *process) start(ctx context.Context, spec member.Spec) error {
	if p.current() != nil {
		return nil // the step is run again
	}
	spec.Dir, spec.Name, spec.Token = p.dir.Etcd(), p.marker.Node, p.marker.Cluster
	spec.QuotaBytes = p.cfg.QuotaBytes
	spec.PeerURL, spec.ClientURL = p.marker.PeerURL(), p.marker.ClientURL()
	spec.CAFile, spec.CertFile, spec.KeyFile = p.dir.CACert(), p.dir.NodeCert(), p.dir.NodeKey()
	p.state.Set(member.State{})
	p.measures.Set(member.Measures{})
	run := &memberRun{
		supervisor: p.supervise(member.Config{
			Command: p.cfg.Command, Spec: spec, Lock: p.dir.Lock(), Prepare: p.prepareMember,
			Log: p.log.With("worker", "etcd-member"), State: p.state, Measures: p.measures,
		}),
		done: make(chan struct{}),
	}
	ctx, run.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() { // ends with memberRun.end
		defer close(run.done)
		run.err = run.supervisor.Run(ctx)
	}()
	p.run.Set(run)
	return nil
}

// startPatience is how long a member may take to become ready before the status
// shows why it waits.
const startPatience = 3 * time.Second

// await waits until the member is part of a majority, without a limit.
func (p *process) await(ctx context.Context) error {
	return p.awaitReady(ctx, func(member.State) error { return nil })
}

// awaitBegun is await for a member that begins its log, and returns an error if etcd ended before it
// wrote one.
func (p *process) awaitBegun(ctx context.Context) error {
	return p.awaitReady(ctx, p.didNotBegin)
}

// didNotBegin returns a transient error if etcd ended before it wrote a log.
func (p *process) didNotBegin(now member.State) error {
	if now.LastExit == "" || p.disk.EtcdBegun() {
		return nil
	}
	return transient(fmt.Errorf("the etcd member ended before it wrote its log, asking the cluster for its members again: %s", strings.TrimSpace(now.LastExit)))
}

// awaitReady waits until the member is ready, or until giveUp returns an error.
func (p *process) awaitReady(ctx context.Context, giveUp func(member.State) error) error {
	began := time.Now()
	overdue := time.NewTimer(startPatience)
	defer overdue.Stop()
	other, stop := p.same.watch(ctx)
	defer stop()
	for {
		now, changed := p.current().supervisor.State().Load()
		mismatch, answered := other.Load()
		if now.Ready {
			p.client.Reconnect()
			return nil
		}
		if err := giveUp(now); err != nil {
			return err
		}
		switch problem := memberProblem(now); {
		case mismatch != "":
			p.show(mismatch)
		case problem != "" && (now.LastExit != "" || time.Since(began) >= startPatience):
			p.show(problem)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.current().done:
			return p.memberEnded(p.current())
		case <-changed:
		case <-answered:
		case <-overdue.C:
		}
	}
}

// voterPause is the time between two questions whether this member votes.
const voterPause = 100 * time.Millisecond

// votes reports whether this member votes. leader is the ID of etcd's leader; 0: not known.
func (p *process) votes(ctx context.Context) (leader uint64, votes bool) {
	status, err := p.client.MemberStatus(ctx, p.marker.ClientURL())
	if err != nil {
		return 0, false
	}
	return status.Leader, !status.Learner && status.Leader != 0
}

// initialCluster is the form in which etcd takes the members. etcd ignores it once
// there is a log. Members without a name get a made-up one.
func initialCluster(own datadir.Marker, joining []etcd.Member) string {
	all := []string{own.Node + "=" + own.PeerURL()}
	for _, m := range joining {
		if len(m.PeerURLs) == 0 || keyspace.MemberID(m.ID) == own.MemberID {
			continue
		}
		name := m.Name
		if name == "" || name == own.Node {
			name = "member-" + keyspace.MemberID(m.ID)
		}
		for _, u := range m.PeerURLs {
			all = append(all, name+"="+u)
		}
	}
	return strings.Join(all, ",")
}
