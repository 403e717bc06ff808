package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
)

// memberRun is the running etcd member of this node, from process.start until endMember, or until its supervisor
// gives up.
type memberRun struct {
	supervisor supervisor
	stop       context.CancelFunc
	done       chan struct{} // closed when the supervisor ends
	err        error         // why it ended; read it after done
}

// supervisor keeps the process of the member running until ctx ends (member.Supervisor).
type supervisor interface {
	Run(ctx context.Context) error
	State() *event.Value[member.State]
}

func newSupervisor(cfg member.Config) supervisor { return member.New(cfg) }

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

// memberEnded is called when the supervisor gave up. A directory whose member was
// removed is never started again.
func (r *resident) memberEnded(run *memberRun) error {
	err := run.err
	if errors.Is(err, member.ErrOldCopy) {
		return r.dir.OldCopy(r.marker)
	}
	if !errors.Is(err, member.ErrRemoved) {
		return err
	}
	if !r.marker.Phase.InCluster() && r.marker.Intent == datadir.Join {
		return r.leftBehind()
	}
	if r.marker.Phase.Changing() {
		return err // the next step follows from it
	}
	return errors.Join(r.removedForGood(), r.writeRemoved())
}

// removedForGood is why the sidecar of a node that an operator removed ends.
func (r *resident) removedForGood() error {
	return fmt.Errorf("%w; to join again, delete %q and start with a new token", member.ErrRemoved, r.disk.Path())
}

// writeRemoved writes into the marker that the directory is of no use any more.
func (r *resident) writeRemoved() error {
	return r.writeMarker(func(m *datadir.Marker) { m.Phase = datadir.Removed })
}

// leftBehind is called when the cluster removed this member before it voted. The next
// start joins again, as another member.
func (r *resident) leftBehind() error {
	if err := r.writeMarker(func(m *datadir.Marker) { m.Phase, m.MemberID = datadir.Begun, "" }); err != nil {
		return err
	}
	return errors.New("the cluster has removed this node before it caught up; start the sidecar again, with a valid token, to join again; " +
		"if sidecar cluster remove was typed for it, empty its data directory before that")
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
	case problem == unlisted:
		return unlisted + ": check the other nodes, and the log of this sidecar (worker=etcd-member)"
	case problem == unanswered:
		return "its process runs, and does not answer: the process was stopped, or its disk or the machine hangs: check both there"
	}
	return cmp.Or(problem, "it is not healthy")
}
