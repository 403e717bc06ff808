package fleet

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// This file contains both halves of cordons (docs/protocol-nodes.md#cordons): people write one into a
// record, and the node's registrar observes it.

// CordonChange is the input of SetCordon.
type CordonChange struct {
	Cordon protocol.Cordon // the zero Cordon returns the node to service
	Force  bool            // also if no other node serves
}

// SetCordon takes a node out of service, or returns it to service. It changes nothing else
// in the record, and returns the record as it was. A cordon replaces the one before.
//
// It returns ErrNoNode if there is no record, an error if the record is corrupt, and, without
// Force, ErrLastInService if no other node in service reports a ready kube-apiserver in its
// presence. Two nodes that are taken out of service at the same time cannot both rely on each
// other: the transaction requires that the other node's record and presence did not change.
func SetCordon(ctx context.Context, client *etcd.Client, id protocol.NodeID, change CordonChange) (protocol.Record, error) {
	var was protocol.Record
	err := etcd.UntilUnchanged(ctx, func() (err error) {
		was, err = trySetCordon(ctx, client, id, change)
		return err
	})
	if err != nil {
		return was, fmt.Errorf("change the cordon of node %q: %w", id, err)
	}
	return was, nil
}

func trySetCordon(ctx context.Context, client *etcd.Client, id protocol.NodeID, change CordonChange) (protocol.Record, error) {
	s, err := readSnapshot(ctx, client, &Decoder{})
	if err != nil {
		return protocol.Record{}, err
	}
	was, found := s.fleet.Record(id)
	switch {
	case !found:
		return was, ErrNoNode
	case was.Problem != "":
		return was, fmt.Errorf("the record is corrupt: %s", was.Remedy())
	case was.Node.Cordon == change.Cordon:
		return was, nil
	}
	conds := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.keys.Node(id)), "=", was.Revision)}
	if change.Cordon.On() && !change.Force {
		others, err := s.leavesService(id)
		if err != nil {
			return was, err
		}
		conds = append(conds, others...)
	}
	value, err := withCordon(s.value(id), change.Cordon)
	if err != nil {
		return was, err
	}
	_, err = client.Write(ctx, conds, clientv3.OpPut(s.keys.Node(id), string(value)))
	return was, err
}

// leavesService returns the conditions under which people may take a node out of service
// without force: another one that serves stays as it is. It returns ErrLastInService if there
// is none.
func (s snapshot) leavesService(id protocol.NodeID) ([]clientv3.Cmp, error) {
	relies, allowed := protocol.JudgeCordon(s.fleet, id)
	switch {
	case !allowed:
		return nil, ErrLastInService
	case relies == nil:
		return nil, nil
	}
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(s.keys.Node(relies.ID)), "=", relies.Revision),
		clientv3.Compare(clientv3.ModRevision(s.keys.Presence(relies.ID)), "=", relies.Presence.Revision),
	}, nil
}

// cordonOf returns the cordon of the record that a registration writes. One that is not
// this node's says nothing; then it is the cordon that was read or written last.
func (r *Registrar) cordonOf(current protocol.Record) protocol.Cordon {
	if current.Node.ID == r.cfg.Local.Get().ID {
		return current.Node.Cordon
	}
	return r.last.Node.Cordon
}

// publishCordon shows the gate that the cordon in the record changed. The gate then reads the
// status again, at the record's revision or later.
func (r *Registrar) publishCordon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.registration.Get()
	if !now.Matches || now.Cordon == r.last.Node.Cordon {
		return
	}
	now.Cordon, now.Revision, now.Rewinds = r.last.Node.Cordon, r.last.Revision, r.lastAt.Rewinds
	if now.Cordon.On() {
		r.cfg.Log.Warn("this node was taken out of service", "cordon", now.Cordon.String())
	} else {
		r.cfg.Log.Info("this node is in service again")
	}
	r.set(now)
}

// cordonOverNow reports whether this node has to delete a cordon, and on which conditions: while the work of its turn may be
// under way, the cordon stays.
func (r *Registrar) cordonOverNow(c protocol.Cordon) (bool, []clientv3.Cmp) {
	if !c.Over(time.Now()) {
		return false, nil
	}
	id, turns := r.cfg.Local.Get().ID, r.cfg.Fleet.Get().Turns
	if turns.Works(id) {
		return false, nil
	}
	turn, _ := turns.Of(id)
	return true, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(r.keys.Turn(id)), "=", turn.Revision)}
}

// CordonOver is a cordon that was over when the sidecar read it. The zero CordonOver: there
// was none.
type CordonOver struct {
	Cordon protocol.Cordon
	Read   time.Time
}

// CordonOver follows the last cordon that was over when this sidecar read it.
func (r *Registrar) CordonOver() *event.Value[CordonOver] { return r.cordonOver }

// noteOver notes a cordon that is over and was never in force here: the clock of who wrote it
// may differ from this one.
func (r *Registrar) noteOver(now time.Time) {
	cordon := r.last.Node.Cordon
	if !cordon.Over(now) || r.registration.Get().Cordon == cordon || r.cordonOver.Get().Cordon == cordon {
		return
	}
	r.cfg.Log.Warn("a cordon was over when it was read: check the clocks", "since", cordon.Since, "until", cordon.Until, "now", now.UTC())
	r.cordonOver.Set(CordonOver{cordon, now})
}

// maxCordonWait bounds how long a cordon is believed to last without reading the clock:
// a timer stops while the machine is suspended.
const maxCordonWait = time.Minute

// cordonEnds returns a channel that fires when it is time to check whether the cordon is over;
// nil: the cordon is without an end, or stays for as long as the work of the node's turn.
func (r *Registrar) cordonEnds() <-chan time.Time {
	until := r.last.Node.Cordon.Until
	if until.IsZero() || r.cfg.Fleet.Get().Turns.Works(r.cfg.Local.Get().ID) {
		return nil // a change of the turn wakes the registrar
	}
	return time.After(min(max(time.Until(until), minRegisterPause), maxCordonWait))
}
