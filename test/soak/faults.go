package soak

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// outcome says whether the soak caused a fault.
type outcome string

const (
	done    outcome = ""
	skipped outcome = "skipped" // its target does not exist, or suffers another fault
)

// inject causes a fault and heals it again.
func (w *world) inject(ctx context.Context, f fault) {
	w.calm.RLock()
	defer w.calm.RUnlock()
	if ctx.Err() != nil {
		return
	}
	w.logf("fault: %s", w.describe(f))
	if w.execute(ctx, f) == skipped {
		w.addCount("skipped: " + f.kind.String())
		return
	}
	w.addCount("fault: " + f.kind.String())
}

func (w *world) describe(f fault) string {
	n := nodeNames[f.node]
	switch f.kind {
	case killAPI:
		return fmt.Sprintf("%s (%s, %s)", f.kind, w.nodes[f.node].server.name, f.lasts)
	case freezeMember, killMember, compact, fillEtcd, loseQuorum:
		return fmt.Sprintf("%s (member %d, %s)", f.kind, f.member+1, f.lasts)
	case cutEtcd, slowEtcd, cutAPI, slowAPI, cutStore, slowStore, cutPeers, slowPeers:
		return fmt.Sprintf("%s (%s, %s)", f.kind, w.describeConnections(f), f.lasts)
	case spoilAPI:
		return fmt.Sprintf("%s (%s's %s, %s)", f.kind, n, f.behaviour(), f.lasts)
	case cutNodes, loseSomePackets:
		return fmt.Sprintf("%s (%s, %s)", f.kind, f.describeNodes(), f.lasts)
	case loseDisk:
		return fmt.Sprintf("%s (%s, %s)", f.kind, nodeNames[f.member], f.lasts)
	case editObject, dropStamp, dropObject, denyWrites, mutateWrites:
		return fmt.Sprintf("%s (%s)", f.kind, keptObjects[f.object].ref())
	default:
		return fmt.Sprintf("%s (%s, %s)", f.kind, n, f.lasts)
	}
}

func (w *world) execute(ctx context.Context, f fault) outcome {
	n := w.nodes[f.node]
	switch f.kind {
	case killSidecar:
		return w.killSidecar(ctx, n, f.lasts, f.crash())
	case freezeSidecar:
		return w.freezeSidecar(ctx, n, leaseTTL+f.lasts/2)
	case freezeWriter, killWriter:
		return w.stopWriter(ctx, f)
	case freezeMember, killMember, loseQuorum:
		return held(&w.etcdBusy, func() outcome { return w.stopMembers(ctx, f) })
	case cutNodes, loseSomePackets:
		return held(&w.etcdBusy, func() outcome { return w.impairNodes(ctx, f) })
	case loseDisk:
		return held(&w.etcdBusy, func() outcome { return w.loseDisk(ctx, f) })
	case losePower:
		return held(&w.etcdBusy, func() outcome { return w.losePower(ctx, f) })
	case killService:
		return w.killService(n)
	case changeServices:
		return w.changeServices()
	case fillEtcd:
		return held(&w.etcdBusy, func() outcome { return w.fill(ctx, f) })
	case compact:
		return held(&w.etcdBusy, func() outcome { return w.compact(ctx) })
	case cutEtcd, slowEtcd, cutAPI, slowAPI, spoilAPI:
		return held(&n.network, func() outcome { return w.impairSidecar(ctx, n, f) })
	case cutStore, slowStore:
		return held(&n.server.busy, func() outcome { return f.impair(ctx, f.some(n.server.members), nil) })
	case cutPeers, slowPeers:
		return held(&w.etcdBusy, func() outcome { return w.impairPeers(ctx, f) })
	case killAPI:
		return held(&n.server.busy, func() outcome { return w.killAPI(ctx, n.server, f.lasts) })
	case spoilStatus, dropStatus, dropParent:
		return held(&w.lossBusy, func() outcome { return w.lose(ctx, f) })
	case editObject, dropStamp, dropObject:
		return w.spoilObject(ctx, f)
	case reloadBundle, loseNode, isolateNode, startDuplicate:
		return w.disturbNode(ctx, n, f)
	case denyWrites:
		return w.denyWrites(ctx, f)
	case mutateWrites:
		return w.mutateWrites(ctx, f)
	case otherPrefix:
		return held(&w.lossBusy, func() outcome { return w.startElsewhere(ctx, n, f.lasts) })
	case tenant:
		return w.disturbAsTenant(ctx, f)
	case restoreStore:
		return held(&w.restoreBusy, func() outcome { return w.restoreStore(ctx, f) })
	case dropNamespace:
		return held(&w.dropBusy, func() outcome { return w.dropNamespace(ctx) })
	case dropDefinition:
		return held(&w.dropBusy, func() outcome { return w.dropDefinition(ctx) })
	default:
		return w.spoilKeys(ctx, n, f)
	}
}

// held runs f, unless another fault holds the mutex.
func held(mu *sync.Mutex, f func() outcome) outcome {
	if !mu.TryLock() {
		return skipped
	}
	defer mu.Unlock()
	return f()
}

func (w *world) killSidecar(ctx context.Context, n *node, d time.Duration, how func(*cluster.Sidecar) error) outcome {
	return held(&n.busy, func() outcome {
		index := n.release
		if err := w.stop(n, how); err != nil {
			w.logf("kill %s: %v", n.name(), err)
		}
		pause(ctx, d)
		w.renew(ctx, n)
		if err := w.start(n, index); err != nil {
			w.logf("restart %s: %v", n.name(), err)
		}
		return done
	})
}

func (w *world) freezeSidecar(ctx context.Context, n *node, d time.Duration) outcome {
	return held(&n.busy, func() outcome {
		if n.sidecar == nil {
			return skipped
		}
		w.freeze(ctx, n.sidecar.Process, d)
		return done
	})
}

// freeze stops a process for a while. Signals to a dead process do
// nothing.
func (w *world) freeze(ctx context.Context, p *cluster.Process, d time.Duration) {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		w.logf("%v", err)
	}
	pause(ctx, d)
	if err := p.Signal(syscall.SIGCONT); err != nil {
		w.logf("%v", err)
	}
}

// stopWriter waits for a leader that starts to work, and then freezes or kills it.
func (w *world) stopWriter(ctx context.Context, f fault) outcome {
	patience := 20 * time.Second
	if w.shape.moves {
		patience = 3 * time.Second // others wait until no fault is under way
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	status, found := w.rec.awaitStatus(waiting, func(s protocol.Status) bool { return s.State == protocol.Working })
	if !found {
		return skipped
	}
	for _, n := range w.nodes {
		if n.name() != string(status.Leader) {
			continue
		}
		pause(ctx, time.Duration(f.how%60)*time.Millisecond) // while it works
		if f.kind == killWriter {
			return w.killSidecar(ctx, n, f.lasts/4, f.crash())
		}
		return w.freezeSidecar(ctx, n, leaseTTL+f.lasts/2)
	}
	return skipped
}

func (w *world) stopMembers(ctx context.Context, f fault) outcome {
	if w.network != nil {
		return w.stopChildren(ctx, f)
	}
	members := w.cluster.Members
	stopped := []*cluster.Member{members[f.member]}
	if f.kind == loseQuorum {
		stopped = append(stopped, members[(f.member+1)%len(members)])
	}
	crash := f.kind == killMember || f.kind == loseQuorum && f.how%2 == 0
	for _, m := range stopped {
		sig := syscall.SIGSTOP
		if crash {
			sig = syscall.SIGKILL
		}
		if err := m.Process().Signal(sig); err != nil {
			w.logf("%v", err)
		}
	}
	pause(ctx, f.lasts)
	for _, m := range stopped {
		if !crash {
			if err := m.Process().Signal(syscall.SIGCONT); err != nil {
				w.logf("%v", err)
			}
			continue
		}
		<-m.Process().Done()
		if err := m.Restart(); err != nil {
			w.logf("restart %s: %v", m.Name(), err)
		}
	}
	w.awaitMembers(ctx, stopped)
	return done
}

// awaitMembers returns when all members serve: the next fault of etcd starts only
// then. It also works after ctx ended.
func (w *world) awaitMembers(ctx context.Context, stopped []*cluster.Member) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for _, m := range stopped {
		if err := m.Await(limited); err != nil {
			w.logf("%v", err)
		}
	}
}

// fill raises the alarm of a member that used up its quota.
func (w *world) fill(ctx context.Context, f fault) outcome {
	alarm := func(ctx context.Context, do etcdserverpb.AlarmRequest_AlarmAction, member uint64) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := etcdserverpb.NewMaintenanceClient(w.etcd.ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
			Action: do, MemberID: member, Alarm: etcdserverpb.AlarmType_NOSPACE,
		})
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	members, err := w.etcd.MemberList(limited)
	if err != nil {
		return skipped
	}
	id := members.Members[f.member%len(members.Members)].ID
	if err := alarm(ctx, etcdserverpb.AlarmRequest_ACTIVATE, id); err != nil {
		w.logf("raise the alarm: %v", err)
	}
	pause(ctx, f.lasts)
	for range 10 {
		if err = alarm(context.WithoutCancel(ctx), etcdserverpb.AlarmRequest_DEACTIVATE, id); err == nil {
			return done
		}
	}
	w.logf("end the alarm: %v", err)
	return done
}

// compact compacts etcd up to the last recorded revision.
func (w *world) compact(ctx context.Context) outcome {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, err := w.etcd.Compact(ctx, w.rec.seenUpTo()); err != nil {
		return skipped
	}
	return done
}

func (w *world) killAPI(ctx context.Context, s *server, d time.Duration) outcome {
	if err := s.api.Kill(); err != nil {
		w.logf("kill kube-apiserver: %v", err)
	}
	pause(ctx, d)
	if err := w.startServer(s); err != nil {
		w.logf("restart kube-apiserver: %v", err)
	}
	return done
}

// spoilKeys writes garbage over the keys of sidecars. It does not change the
// leases: a key either still belongs to a sidecar or expires soon.
func (w *world) spoilKeys(ctx context.Context, n *node, f fault) outcome {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	w.mu.Lock()
	w.edits++
	value := fmt.Sprintf("%s%d", garbage, w.edits)
	w.mu.Unlock()
	var err error
	switch f.kind {
	case spoilRecord:
		if n.pod {
			return skipped // if it is replaced before it sees that, people must remove the record
		}
		_, err = w.etcd.Put(ctx, w.rec.keys.Node(protocol.NodeID(n.name())), value)
	case spoilPresence:
		_, err = w.etcd.Put(ctx, w.rec.keys.Presence(protocol.NodeID(n.name())), value, clientv3.WithIgnoreLease())
	default:
		err = w.spoilCandidates(ctx, f, value)
	}
	if err != nil {
		return skipped
	}
	return done
}

// spoilCandidates damages or deletes the leader's key, or adds a candidate without
// a sidecar, which expires with its lease.
func (w *world) spoilCandidates(ctx context.Context, f fault, value string) error {
	keys, err := w.etcd.Get(ctx, w.rec.keys.Leaders(), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil || len(keys.Kvs) == 0 {
		return fmt.Errorf("no candidates: %w", err)
	}
	first := string(keys.Kvs[0].Key)
	switch {
	case f.kind == dropCandidate:
		_, err = w.etcd.Delete(ctx, first)
	case f.how%2 == 0:
		_, err = w.etcd.Put(ctx, first, value, clientv3.WithIgnoreLease())
	default:
		var lease *clientv3.LeaseGrantResponse
		if lease, err = w.etcd.Grant(ctx, 5); err == nil {
			_, err = w.etcd.Put(ctx, w.rec.keys.Leaders()+"soak", value, clientv3.WithLease(lease.ID))
		}
	}
	return err
}
