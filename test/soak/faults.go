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

// outcome says whether a fault could be brought about.
type outcome string

const (
	done    outcome = ""
	skipped outcome = "skipped" // its target did not exist, or had another fault
)

// strike brings a fault about and heals it again.
func (w *world) strike(ctx context.Context, f fault) {
	w.tell("fault: %s", w.describe(f))
	if w.strikes(ctx, f) == skipped {
		w.counted("skipped: " + f.blow.String())
		return
	}
	w.counted("fault: " + f.blow.String())
}

func (w *world) describe(f fault) string {
	n := nodeNames[f.node]
	switch f.blow {
	case killAPI:
		return fmt.Sprintf("%s (%s, %s)", f.blow, w.nodes[f.node].server.name, f.lasts)
	case freezeMember, killMember, compact, fillEtcd, loseQuorum:
		return fmt.Sprintf("%s (member %d, %s)", f.blow, f.member+1, f.lasts)
	case cutEtcd, slowEtcd, cutAPI, slowAPI, cutStore, slowStore, cutPeers, slowPeers:
		return fmt.Sprintf("%s (%s, %s)", f.blow, w.describeWays(f), f.lasts)
	case spoilAPI:
		return fmt.Sprintf("%s (%s's %s, %s)", f.blow, n, f.manners(), f.lasts)
	case editObject, dropStamp, dropObject:
		return fmt.Sprintf("%s (%s)", f.blow, keptObjects[f.object].ref())
	default:
		return fmt.Sprintf("%s (%s, %s)", f.blow, n, f.lasts)
	}
}

func (w *world) strikes(ctx context.Context, f fault) outcome {
	n := w.nodes[f.node]
	switch f.blow {
	case killSidecar:
		return w.killSidecar(ctx, n, f.lasts)
	case freezeSidecar:
		return w.freezeSidecar(ctx, n, leaseTTL+f.lasts/2)
	case freezeWriter, killWriter:
		return w.strikeWriter(ctx, f)
	case freezeMember, killMember, loseQuorum:
		return held(&w.etcdBusy, func() outcome { return w.strikeMembers(ctx, f) })
	case fillEtcd:
		return held(&w.etcdBusy, func() outcome { return w.fill(ctx, f) })
	case compact:
		return w.compact(ctx)
	case cutEtcd, slowEtcd, cutAPI, slowAPI, spoilAPI:
		return held(&n.network, func() outcome { return w.strikeNetwork(ctx, n, f) })
	case cutStore, slowStore:
		return held(&n.server.busy, func() outcome { return f.impair(ctx, f.some(n.server.members), nil) })
	case cutPeers, slowPeers:
		return held(&w.etcdBusy, func() outcome { return w.strikePeers(ctx, f) })
	case killAPI:
		return held(&n.server.busy, func() outcome { return w.killAPI(ctx, n.server, f.lasts) })
	case spoilStatus, dropStatus, dropParent:
		return held(&w.lossBusy, func() outcome { return w.lose(ctx, f) })
	case editObject, dropStamp, dropObject:
		return w.strikeObject(ctx, f)
	default:
		return w.strikeKeys(ctx, n, f)
	}
}

// held runs f if nothing else of its kind goes on.
func held(mu *sync.Mutex, f func() outcome) outcome {
	if !mu.TryLock() {
		return skipped
	}
	defer mu.Unlock()
	return f()
}

func (w *world) killSidecar(ctx context.Context, n *node, d time.Duration) outcome {
	return held(&n.busy, func() outcome {
		index := n.release
		if err := w.stop(n, crashing); err != nil {
			w.tell("kill %s: %v", n.id, err)
		}
		pause(ctx, d)
		if err := w.start(n, index); err != nil {
			w.tell("start %s again: %v", n.id, err)
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

// freeze stops a process for a while; signals to one that has ended do nothing.
func (w *world) freeze(ctx context.Context, p *cluster.Process, d time.Duration) {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		w.tell("%v", err)
	}
	pause(ctx, d)
	if err := p.Signal(syscall.SIGCONT); err != nil {
		w.tell("%v", err)
	}
}

// strikeWriter waits for a leader that begins to work, and strikes it then.
func (w *world) strikeWriter(ctx context.Context, f fault) outcome {
	waiting, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	status, found := w.rec.awaitStatus(waiting, func(s protocol.Status) bool { return s.State == protocol.Working })
	if !found {
		return skipped
	}
	for _, n := range w.nodes {
		if n.id != string(status.Leader) {
			continue
		}
		pause(ctx, time.Duration(f.how%60)*time.Millisecond) // into the work
		if f.blow == killWriter {
			return w.killSidecar(ctx, n, f.lasts/4)
		}
		return w.freezeSidecar(ctx, n, leaseTTL+f.lasts/2)
	}
	return skipped
}

func (w *world) strikeMembers(ctx context.Context, f fault) outcome {
	members := w.cluster.Members
	struck := []*cluster.Member{members[f.member]}
	if f.blow == loseQuorum {
		struck = append(struck, members[(f.member+1)%len(members)])
	}
	kill := f.blow == killMember || f.blow == loseQuorum && f.how%2 == 0
	for _, m := range struck {
		sig := syscall.SIGSTOP
		if kill {
			sig = syscall.SIGKILL
		}
		if err := m.Process().Signal(sig); err != nil {
			w.tell("%v", err)
		}
	}
	pause(ctx, f.lasts)
	for _, m := range struck {
		if !kill {
			if err := m.Process().Signal(syscall.SIGCONT); err != nil {
				w.tell("%v", err)
			}
			continue
		}
		<-m.Process().Done()
		if err := m.Restart(); err != nil {
			w.tell("restart %s: %v", m.Name(), err)
		}
	}
	w.awaitMembers(ctx, struck)
	return done
}

// awaitMembers returns when all serve: the next fault of etcd begins when this
// one is over. It also works where ctx has ended.
func (w *world) awaitMembers(ctx context.Context, struck []*cluster.Member) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for _, m := range struck {
		if err := m.Await(limited); err != nil {
			w.tell("%v", err)
		}
	}
}

// fill raises the alarm that a member raises whose quota is used up.
func (w *world) fill(ctx context.Context, f fault) outcome {
	alarm := func(ctx context.Context, action etcdserverpb.AlarmRequest_AlarmAction, member uint64) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := etcdserverpb.NewMaintenanceClient(w.etcd.ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
			Action: action, MemberID: member, Alarm: etcdserverpb.AlarmType_NOSPACE,
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
		w.tell("raise the alarm: %v", err)
	}
	pause(ctx, f.lasts)
	for range 10 {
		if err = alarm(context.WithoutCancel(ctx), etcdserverpb.AlarmRequest_DEACTIVATE, id); err == nil {
			return done
		}
	}
	w.tell("end the alarm: %v", err)
	return done
}

// compact drops the past up to what was seen.
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
		w.tell("kill apiserver: %v", err)
	}
	pause(ctx, d)
	if err := w.startServer(s); err != nil {
		w.tell("start apiserver again: %v", err)
	}
	return done
}

// strikeKeys writes garbage into the keys of sidecars. It keeps their leases, so a
// key that no sidecar keeps alive ends soon.
func (w *world) strikeKeys(ctx context.Context, n *node, f fault) outcome {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	w.mu.Lock()
	w.edits++
	value := fmt.Sprintf("%s%d", garbage, w.edits)
	w.mu.Unlock()
	var err error
	switch f.blow {
	case spoilRecord:
		_, err = w.etcd.Put(ctx, w.rec.keys.Node(protocol.NodeID(n.id)), value)
	case spoilPresence:
		_, err = w.etcd.Put(ctx, w.rec.keys.Presence(protocol.NodeID(n.id)), value, clientv3.WithIgnoreLease())
	default:
		err = w.strikeCandidates(ctx, f, value)
	}
	if err != nil {
		return skipped
	}
	return done
}

// strikeCandidates damages or deletes the leader's key, or adds a candidate that
// is none and goes with its lease.
func (w *world) strikeCandidates(ctx context.Context, f fault, value string) error {
	keys, err := w.etcd.Get(ctx, w.rec.keys.Leaders(), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil || len(keys.Kvs) == 0 {
		return fmt.Errorf("no candidates: %w", err)
	}
	first := string(keys.Kvs[0].Key)
	switch {
	case f.blow == dropCandidate:
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
