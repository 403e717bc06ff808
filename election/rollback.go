package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// RollbackRequest is a rollback that people want to begin. Force: also if no newer node could serve with
// the objects of that release.
type RollbackRequest struct {
	protocol.Rollback
	Force bool
	// Extend gives a rollback to the same release that is under way the end of this one.
	Extend bool
}

// BeginRollback writes that people want the objects of an older release back
// (docs/protocol-objects.md#rollback). It returns ErrNotRollable if the facts do not allow that, and
// otherwise the facts on which it was written. A rollback to the same release that is under way
// is not written again unless its end changes, and is returned with the facts.
func BeginRollback(ctx context.Context, client *etcd.Client, r RollbackRequest) (Begun, error) {
	var begun Begun
	err := etcd.UntilUnchanged(ctx, func() (err error) {
		begun, err = beginRollback(ctx, client, r)
		return err
	})
	begun.Fleet = protocol.Unseen(begun.Fleet)
	return begun, err
}

// Begun is a rollback that is under way, with the facts on which that was decided.
type Begun struct {
	Fleet  protocol.Fleet
	Status protocol.StatusView
	Before bool // it was under way before
}

// beginRollback returns etcd.ErrChanged if something changed after it was read.
func beginRollback(ctx context.Context, client *etcd.Client, r RollbackRequest) (Begun, error) {
	s, _, err := readSnapshot(ctx, client, &fleet.Decoder{})
	out := Begun{s.fleet, s.status, s.fleet.Rollback.On()}
	if err != nil {
		return out, fmt.Errorf("read status, records and presences: %w", err)
	}
	answer := protocol.JudgeRollback(s.status, s.fleet, r.To)
	refusal := answer.Refusal
	if refusal == "" && !r.Force {
		refusal = answer.Risk
	}
	if refusal != "" {
		return out, fmt.Errorf("%w: %s", ErrNotRollable, refusal)
	}
	if was := s.fleet.Rollback; out.Before { // to the same release
		if !r.Extend {
			return out, nil
		}
		r.By, r.Since = was.By, was.Since
	}
	value, err := fleet.EncodeRollback(r.Rollback)
	if err == nil {
		keys := keyspace.Under(client.Prefix())
		conds := append(unchanged(keys, s), clientv3.Compare(clientv3.ModRevision(keys.Rollback()), "<", s.fleet.Revision+1))
		_, err = client.Write(ctx, conds, clientv3.OpPut(keys.Rollback(), string(value)))
	}
	if err != nil {
		return out, fmt.Errorf("write the rollback: %w", err)
	}
	r.Revision = s.fleet.Revision + 1
	out.Fleet.Rollback = r.Rollback
	return out, nil
}

// unchanged returns the conditions that status and records are unchanged since a snapshot.
func unchanged(keys keyspace.Keys, s snapshot) []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(keys.Status()), "=", s.status.Revision),
		clientv3.Compare(clientv3.ModRevision(keys.Nodes()).WithPrefix(), "<", s.fleet.Revision+1),
	}
}

// EndRollback ends the rollback, and returns the one that was there; the zero Rollback: there
// was none.
func EndRollback(ctx context.Context, client *etcd.Client) (protocol.Rollback, error) {
	var was protocol.Rollback
	err := etcd.UntilUnchanged(ctx, func() error {
		s, _, err := readSnapshot(ctx, client, &fleet.Decoder{})
		if err != nil {
			return fmt.Errorf("read the rollback: %w", err)
		}
		if was = s.fleet.Rollback; !was.On() {
			return nil
		}
		return deleteRollback(ctx, client, was)
	})
	return was, err
}

// deleteRollback deletes the rollback that was read, if the conditions hold.
func deleteRollback(ctx context.Context, client *etcd.Client, was protocol.Rollback, conds ...clientv3.Cmp) error {
	key := keyspace.Under(client.Prefix()).Rollback()
	conds = append(conds, clientv3.Compare(clientv3.ModRevision(key), "=", was.Revision))
	if _, err := client.Write(ctx, conds, clientv3.OpDelete(key)); err != nil {
		return fmt.Errorf("delete the rollback: %w", err)
	}
	return nil
}

// rollbackCheck is how long after a check a rollback is checked again if the fleet does not
// change: the status may have become DONE, or its time may be over.
const rollbackCheck = time.Minute

// endRollbacks ends each rollback that is done or whose time is over, until ctx ends.
func (e *Election) endRollbacks(ctx context.Context) {
	for ctx.Err() == nil {
		members, changed := e.cfg.Fleet.Load()
		var again time.Duration
		if r := members.Rollback; r.On() {
			if err := e.endRollback(ctx); err != nil && !errors.Is(err, etcd.ErrChanged) && ctx.Err() == nil {
				e.cfg.Log.Warn("cannot see whether the rollback has ended, trying again", "err", err)
			}
			again = min(max(time.Until(r.Until), time.Second), rollbackCheck)
		}
		event.WaitFor(ctx, again, changed)
	}
}

// endRollback ends the rollback if it is done, or its time is over.
func (e *Election) endRollback(ctx context.Context) error {
	s, _, err := readSnapshot(ctx, e.cfg.Client, &fleet.Decoder{})
	if err != nil {
		return err
	}
	r := s.fleet.Rollback
	switch {
	case protocol.RollbackDone(s.status, s.fleet):
		err = deleteRollback(ctx, e.cfg.Client, r, unchanged(e.keys(), s)...)
	case r.Over(time.Now()):
		err = deleteRollback(ctx, e.cfg.Client, r)
	default:
		return nil
	}
	if err == nil {
		e.cfg.Log.Info("the rollback has ended", "release", r.To.String(), "until", r.Until)
	}
	return err
}
