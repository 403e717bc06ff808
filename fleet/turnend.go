package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// turnChange decides how to change a turn: what has to hold, and what to write.
type turnChange func(snapshot, protocol.Turn) ([]clientv3.Cmp, []clientv3.Op, error)

// of is the same change, of that turn alone: people may have ended it, and services have taken one.
func (change turnChange) of(t protocol.Turn) turnChange {
	return func(s snapshot, has protocol.Turn) ([]clientv3.Cmp, []clientv3.Op, error) {
		if !has.Same(t) {
			return nil, nil, otherTurnError{had: t, has: has}
		}
		return change(s, has)
	}
}

// otherTurnError is an ErrNoTurn: the turn has ended, and its node has another one.
type otherTurnError struct{ had, has protocol.Turn }

func (e otherTurnError) Error() string {
	return fmt.Sprintf("its turn of %s has ended, and now it has another one (%s): %s", e.had.Since.UTC().Format(time.RFC3339), e.has.Kind, e.has)
}

func (otherTurnError) Is(target error) bool { return target == ErrNoTurn }

// unansweredError is the error of a write that etcd may have executed, or executes later.
type unansweredError struct{ error }

func (e unansweredError) Unwrap() error { return e.error }

// MayBeWritten reports whether a change of a turn that returned err was made, or may be yet.
func MayBeWritten(err error) bool {
	_, unanswered := errors.AsType[unansweredError](err)
	return err == nil || unanswered
}

// changeTurn reads the turn of a node and changes it, and tries again if something changed in
// between. It returns the turn as it was.
func changeTurn(ctx context.Context, client *etcd.Client, id protocol.NodeID, change turnChange) (protocol.Turn, error) {
	pauses := registerPauses()
	for {
		s, err := readSnapshot(ctx, client, &Decoder{})
		if err != nil {
			return protocol.Turn{}, err
		}
		was, found := s.fleet.Turns.Of(id)
		if !found {
			return was, fmt.Errorf("node %q: %w", id, ErrNoTurn)
		}
		conds, ops, err := change(s, was)
		if err == nil && len(ops) > 0 {
			conds = append(conds, clientv3.Compare(clientv3.ModRevision(s.keys.Turn(id)), "=", was.Revision))
			if _, err = client.Write(ctx, conds, ops...); err != nil && mayBeWritten(err) {
				err = unansweredError{err}
			}
		}
		if errors.Is(err, etcd.ErrChanged) && pauses.Sleep(ctx) {
			continue
		}
		if err != nil {
			return was, fmt.Errorf("change the turn of node %q: %w", id, err)
		}
		return was, nil
	}
}

// SetTurnWork writes how far the work of a turn is. It returns ErrNoTurn if that turn has ended.
func SetTurnWork(ctx context.Context, client *etcd.Client, t protocol.Turn, work protocol.TurnWork) error {
	return endTurnWork(ctx, client, t, work, "")
}

// WorksError is the error of a turn whose work people may not call done, as nodeturns.MayEnd decides.
type WorksError struct{ Turn protocol.Turn }

func (e WorksError) Error() string {
	if e.Turn.Kind == protocol.TurnOfServices {
		return e.Turn.String() + "; its sidecar ends it when they are ready"
	}
	return e.Turn.String() + "; the command runs there, or is about to"
}

// DeclareTurnDone writes that the work of a turn is done, because people say so. It returns a WorksError if they may not,
// and ErrNoTurn if that turn has ended.
func DeclareTurnDone(ctx context.Context, client *etcd.Client, of protocol.Turn) error {
	declare := turnChange(func(s snapshot, t protocol.Turn) (conds []clientv3.Cmp, ops []clientv3.Op, err error) {
		switch {
		case !nodeturns.MayEnd(t, slices.Contains(s.fleet.Turns.Running, t.Node)):
			return nil, nil, WorksError{t}
		case t.Work == protocol.TurnWorkDone:
			return nil, nil, nil
		}
		if t.OfCommand() { // it may begin again meanwhile
			conds = append(conds, clientv3.Compare(clientv3.CreateRevision(s.keys.TurnRunning(t.Node)), "=", 0))
		}
		t.Work, t.Problem = protocol.TurnWorkDone, ""
		return conds, []clientv3.Op{clientv3.OpPut(s.keys.Turn(t.Node), string(encodeTurn(t)))}, nil
	})
	_, err := changeTurn(ctx, client, of.Node, declare.of(of))
	return err
}

// FailTurnWork writes that the work of a turn failed, and why, for people. It returns ErrNoTurn if
// that turn has ended.
func FailTurnWork(ctx context.Context, client *etcd.Client, t protocol.Turn, problem string) error {
	return endTurnWork(ctx, client, t, protocol.TurnWorkFailed, problem)
}

func endTurnWork(ctx context.Context, client *etcd.Client, of protocol.Turn, work protocol.TurnWork, problem string) error {
	write := turnChange(func(s snapshot, t protocol.Turn) ([]clientv3.Cmp, []clientv3.Op, error) {
		if t.Work == work {
			return nil, nil, nil
		}
		t.Work, t.Problem = work, problem
		return nil, []clientv3.Op{clientv3.OpPut(s.keys.Turn(t.Node), string(encodeTurn(t)))}, nil
	})
	_, err := changeTurn(ctx, client, of.Node, write.of(of))
	return err
}

// SetCommandWork writes the decision of nodeturns.JudgeCommand about a turn, with its problem. It
// returns etcd.ErrChanged if the turn changed since, or its command runs and the decision was that
// it does not.
func SetCommandWork(ctx context.Context, client *etcd.Client, t protocol.Turn) error {
	keys := keyspace.Under(client.Prefix())
	conds := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(keys.Turn(t.Node)), "=", t.Revision)}
	if t.Work == protocol.TurnWorkInterrupted {
		conds = append(conds, clientv3.Compare(clientv3.CreateRevision(keys.TurnRunning(t.Node)), "=", 0))
	}
	if _, err := client.Write(ctx, conds, clientv3.OpPut(keys.Turn(t.Node), string(encodeTurn(t)))); err != nil {
		return fmt.Errorf("change the turn of node %q: %w", t.Node, err)
	}
	return nil
}

// AdvanceTurn carries out the next action of the node with the turn, as nodeturns.NextAction
// decides, and returns it. votes: its member of etcd answers, or it runs none. It returns
// ErrNoTurn if that turn has ended.
func AdvanceTurn(ctx context.Context, client *etcd.Client, of protocol.Turn, votes bool) (nodeturns.Action, error) {
	id, action := of.Node, nodeturns.Action(0)
	advance := turnChange(func(s snapshot, t protocol.Turn) ([]clientv3.Cmp, []clientv3.Op, error) {
		own, _ := s.fleet.Record(id)
		action = nodeturns.NextAction(nodeturns.Progress{
			Work: t.Work, Cordoned: own.Node.Cordon == t.Cordon() && own.Problem == "", Own: own, Votes: votes,
		})
		sameRecord := clientv3.Compare(clientv3.ModRevision(s.keys.Node(id)), "=", own.Revision)
		switch action {
		case nodeturns.ReturnToService:
			op, err := s.withoutCordon(id)
			return []clientv3.Cmp{sameRecord}, []clientv3.Op{op}, err
		case nodeturns.End:
			presence := clientv3.Compare(clientv3.ModRevision(s.keys.Presence(id)), "=", own.Presence.Revision)
			return []clientv3.Cmp{sameRecord, presence}, []clientv3.Op{clientv3.OpDelete(s.keys.Turn(id))}, nil
		default:
			return nil, nil, nil
		}
	})
	_, err := changeTurn(ctx, client, id, advance.of(of))
	return action, err
}

// withoutCordon is the write that ends the cordon of a node.
func (s snapshot) withoutCordon(id protocol.NodeID) (clientv3.Op, error) {
	value, err := withCordon(s.value(id), protocol.Cordon{})
	return clientv3.OpPut(s.keys.Node(id), string(value)), err
}

// ForceTurnEnd ends the turn that a node has, in any state of the node, with the cordon of the turn,
// and returns it. It returns ErrNoTurn if the node has none.
func ForceTurnEnd(ctx context.Context, client *etcd.Client, id protocol.NodeID) (protocol.Turn, error) {
	return changeTurn(ctx, client, id, snapshot.endByForce)
}

// GiveTurnBack is ForceTurnEnd for a turn in which nothing was done. It returns ErrNoTurn if that turn
// has ended, or was never taken: a write of it that got no answer does not take it later, either.
func GiveTurnBack(ctx context.Context, client *etcd.Client, t protocol.Turn) error {
	return etcd.UntilUnchanged(ctx, func() error {
		_, err := changeTurn(ctx, client, t.Node, turnChange(snapshot.endByForce).of(t))
		if _, other := errors.AsType[otherTurnError](err); other || !errors.Is(err, ErrNoTurn) {
			return err
		}
		if late := refuseLateTurn(ctx, client, t.Node); late != nil {
			return fmt.Errorf("refuse a late write of the turn: %w", late) // not ErrNoTurn: it may be taken yet
		}
		return err
	})
}

// refuseLateTurn changes a key below turns/ while a node has no turn: a write that is on its way requires that none changed.
func refuseLateTurn(ctx context.Context, client *etcd.Client, id protocol.NodeID) error {
	s, err := readSnapshot(ctx, client, &Decoder{})
	if err != nil {
		return err
	}
	_, err = client.Write(ctx, []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(s.keys.Turn(id)), "=", 0),
		clientv3.Compare(clientv3.ModRevision(s.keys.TurnLimit()), "<", s.revision+1),
	}, clientv3.OpPut(s.keys.TurnLimit(), string(encodeTurnLimit(max(s.fleet.Turns.Limit, 1)))))
	return err
}

func (s snapshot) endByForce(t protocol.Turn) ([]clientv3.Cmp, []clientv3.Op, error) {
	own, found := s.fleet.Record(t.Node)
	ops := []clientv3.Op{clientv3.OpDelete(s.keys.Turn(t.Node))}
	if !found || own.Problem != "" || own.Node.Cordon != t.Cordon() {
		return nil, ops, nil
	}
	op, err := s.withoutCordon(t.Node)
	return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.keys.Node(t.Node)), "=", own.Revision)}, append(ops, op), err
}

// SetTurnLimit sets how many nodes of the fleet may have a turn at the same time.
func SetTurnLimit(ctx context.Context, client *etcd.Client, turns int) error {
	key := keyspace.Under(client.Prefix()).TurnLimit()
	if _, err := client.Write(ctx, nil, clientv3.OpPut(key, string(encodeTurnLimit(turns)))); err != nil {
		return fmt.Errorf("write how many nodes may have a turn: %w", err)
	}
	return nil
}
