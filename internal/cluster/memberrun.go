package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
)

// memberRun is the etcd member of this node while it is kept running: from a step of
// a flow until the Manager stops.
type memberRun struct {
	supervisor *member.Supervisor
	stop       context.CancelFunc
	done       chan struct{} // closed when the supervisor ends
	err        error         // why it ended; read it after done
	forwarded  sync.WaitGroup
}

// memberIDs are the IDs that etcd gave to the member and its cluster.
type memberIDs struct{ member, cluster uint64 }

func (r *memberRun) ids() memberIDs {
	now := r.supervisor.State().Get()
	return memberIDs{now.MemberID, now.ClusterID}
}

// end stops the member and waits for it.
func (r *memberRun) end() {
	r.stop()
	<-r.done
	r.forwarded.Wait()
}

// startNewMember starts the only member of a new cluster.
func startNewMember(ctx context.Context, f *flow) error {
	return f.startMember(ctx, member.Spec{InitialCluster: f.marker.Node + "=" + f.marker.PeerURL()})
}

// startOldMember starts a member with a log: etcd ignores the cluster in its Spec
// then.
func startOldMember(ctx context.Context, f *flow) error {
	return f.startMember(ctx, member.Spec{InitialCluster: f.marker.Node + "=" + f.marker.PeerURL(), Existing: true})
}

// startMember starts the member of this directory, and keeps it running. It runs
// longer than ctx, the step's context: close ends it.
func (f *flow) startMember(ctx context.Context, spec member.Spec) error {
	if f.current() != nil {
		return nil // the step is run again
	}
	spec.Dir, spec.Name, spec.Token = f.dir.Etcd(), f.marker.Node, f.marker.Cluster
	spec.QuotaBytes = f.cfg.QuotaBytes
	spec.PeerURL, spec.ClientURL = f.marker.PeerURL(), f.marker.ClientURL()
	spec.CAFile, spec.CertFile, spec.KeyFile = f.dir.CACert(), f.dir.NodeCert(), f.dir.NodeKey()
	run := &memberRun{
		supervisor: member.New(member.Config{
			Command: f.cfg.Command, Spec: spec, Lock: f.dir.Lock(), Prepare: f.prepareMember,
			Log: f.plainLog.With("worker", "etcd-member"),
		}),
		done: make(chan struct{}),
	}
	ctx, run.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() { // ends with memberRun.end
		defer close(run.done)
		run.err = run.supervisor.Run(ctx)
	}()
	run.forwarded.Go(func() { f.forward(run) }) // ends with it
	f.run.Set(run)
	return nil
}

// ended reports whether the supervisor gave up.
func (r *memberRun) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// startPatience is how long a member may take to become ready before the status
// shows why it waits.
const startPatience = 3 * time.Second

// awaitMember waits until the member is part of a majority, without a limit.
func awaitMember(ctx context.Context, f *flow) error {
	return f.awaitReady(ctx, func(member.State) error { return nil })
}

// awaitReady waits until the member is ready, or until giveUp returns an error.
func (f *flow) awaitReady(ctx context.Context, giveUp func(member.State) error) error {
	began := time.Now()
	overdue := time.NewTimer(startPatience)
	defer overdue.Stop()
	other, stop := f.watchOthers(ctx)
	defer stop()
	for {
		now, changed := f.current().supervisor.State().Load()
		mismatch, answered := other.Load()
		if now.Ready {
			f.client.Reconnect()
			return nil
		}
		if err := giveUp(now); err != nil {
			return err
		}
		switch problem := memberProblem(now); {
		case mismatch != "":
			f.show(mismatch)
		case problem != "" && (now.LastExit != "" || time.Since(began) >= startPatience):
			f.show(problem)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.current().done:
			return f.memberEnded(f.current())
		case <-changed:
		case <-answered:
		case <-overdue.C:
		}
	}
}

// memberEnded is called when the supervisor gave up. A directory whose member was
// removed is never started again.
func (f *flow) memberEnded(run *memberRun) error {
	err := run.err
	if errors.Is(err, member.ErrOldCopy) {
		return f.dir.OldCopy(f.marker)
	}
	if !errors.Is(err, member.ErrRemoved) {
		return err
	}
	if !f.marker.Phase.InCluster() && f.marker.Intent == datadir.Join {
		return f.leftBehind()
	}
	if f.marker.Phase.Changing() {
		return err // the next step follows from it
	}
	removed := fmt.Errorf("%w; to join again, delete %q and start with a new token", err, f.dir.Path())
	return errors.Join(removed, f.writeMarker(func(m *datadir.Marker) { m.Phase = datadir.Removed }))
}

// memberProblem says why the member cannot be used; empty: it can.
func memberProblem(s member.State) string {
	switch {
	case s.Ready:
		return ""
	case !s.Running && s.LastExit != "":
		return fmt.Sprintf("the etcd member has ended, and is started again: %s", strings.TrimSpace(s.LastExit))
	case s.LastExit != "":
		return fmt.Sprintf("the etcd member was started again (%d times) and is not ready yet; it ended with: %s", s.Restarts, strings.TrimSpace(s.LastExit))
	case s.Running:
		return "the etcd member waits for a majority of the members: start the other nodes, and check the network between them"
	}
	return "the etcd member is starting"
}

// observedProblem returns a problem of this node's running member, as the members
// report it, with its remedy.
func observedProblem(problem string) string {
	switch {
	case strings.Contains(problem, "no leader"):
		return "it has no leader: start the other nodes, and check the network between them"
	case problem == unanswered:
		return "its process runs, and does not answer: the process was stopped, or its disk or the machine hangs"
	}
	return cmp.Or(problem, "it is not healthy")
}

// forward publishes the state of the member until the member ends.
func (f *flow) forward(run *memberRun) {
	for {
		now, changed := run.supervisor.State().Load()
		measures, measured := run.supervisor.Measures().Load()
		if now != f.memberState.Get() {
			f.memberState.Set(now)
		}
		f.measures.Set(measures)
		select {
		case <-changed:
		case <-measured:
		case <-run.done:
			f.memberState.Set(run.supervisor.State().Get())
			return
		}
	}
}
