package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// This file takes and ends turns (docs/protocol-nodes.md#turns): protocol decides, and each write
// requires that the keys read for the decision did not change.

// maxRelied bounds the conditions of one transaction: etcd allows 128.
const maxRelied = 100

// unchanged are the conditions that turns, queue, records and presences are as they were read.
// The end of a presence is no write below its prefix, so the presences of the controllers that
// are alive are named; in a fleet of more than maxRelied the first ones.
func (s snapshot) unchanged() []clientv3.Cmp {
	var conds []clientv3.Cmp
	for _, prefix := range []string{s.keys.Nodes(), s.keys.Presences(), s.keys.Turns()} {
		conds = append(conds, clientv3.Compare(clientv3.ModRevision(prefix).WithPrefix(), "<", s.revision+1))
	}
	for _, r := range s.fleet.Records {
		if r.Alive && r.Counts() && len(conds) < maxRelied {
			conds = append(conds, clientv3.Compare(clientv3.ModRevision(s.keys.Presence(r.ID)), "=", r.Presence.Revision))
		}
	}
	return conds
}

// TakeTurn takes a turn for a node and cordons it, unless people cordoned it before. It returns
// the answer of nodeturns.Judge: Granted if it was taken now, and Held if the node
// has one already, which may be another one. It also returns the fleet that it read. out is how long
// the node has not served; 0: that is not known.
func TakeTurn(
	ctx context.Context, client *etcd.Client, want protocol.Turn, voters []protocol.Voter, out time.Duration,
) (nodeturns.Answer, protocol.Fleet, error) {
	pauses := registerPauses()
	want = asRead(want)
	for {
		answer, f, err := tryTakeTurn(ctx, client, want, voters, out)
		if errors.Is(err, etcd.ErrChanged) && pauses.Sleep(ctx) {
			continue // with the fleet as it is now
		}
		if err != nil {
			return answer, f, fmt.Errorf("take a turn for node %q: %w", want.Node, err)
		}
		return answer, f, nil
	}
}

// asRead is a new turn as others will read it: its cordon is known by that.
func asRead(t protocol.Turn) protocol.Turn {
	t.Work = protocol.TurnWorkUnderWay
	return decodeTurn(t.Node, &etcd.KV{Value: encodeTurn(t)})
}

func tryTakeTurn(
	ctx context.Context, client *etcd.Client, want protocol.Turn, voters []protocol.Voter, out time.Duration,
) (nodeturns.Answer, protocol.Fleet, error) {
	s, err := readSnapshot(ctx, client, &Decoder{})
	if err != nil {
		return nodeturns.Answer{}, s.fleet, err
	}
	answer := nodeturns.Judge(nodeturns.Facts{Fleet: s.fleet, Voters: voters, Out: out}, want.Node)
	if answer.Verdict != nodeturns.Granted {
		return answer, s.fleet, nil
	}
	own, _ := s.fleet.Record(want.Node)
	ops := []clientv3.Op{clientv3.OpPut(s.keys.Turn(want.Node), string(encodeTurn(want))), clientv3.OpDelete(s.keys.TurnWaiting(want.Node))}
	conds := append(s.unchanged(), clientv3.Compare(clientv3.ModRevision(s.keys.Node(want.Node)), "=", own.Revision))
	if !own.Node.Cordon.On() {
		value, err := withCordon(s.value(want.Node), want.Cordon())
		if err != nil {
			return answer, s.fleet, err
		}
		ops = append(ops, clientv3.OpPut(s.keys.Node(want.Node), string(value)))
	}
	_, err = client.Write(ctx, conds, ops...)
	return answer, s.fleet, err
}

// turnLease is how long the place of a node in the queue outlives the waiting program.
const turnLease = 10 * time.Second

// TurnWait is a node that waits for its turn.
type TurnWait struct {
	Want   protocol.Turn // its Since is the request's; the turn gets the time it is taken
	Voters func() []protocol.Voter
	// Out returns how long the node has not served; nil: that is not known.
	Out func() time.Duration
	// Told gets each answer, while it waits, with the fleet at that moment.
	Told func(nodeturns.Answer, protocol.Fleet)
	// Took gets the turn when it is taken, or may be: etcd did not answer. nil: that is not needed.
	Took func(protocol.Turn)
	// Followed is the fleet, from a program that follows it already; nil: AwaitTurn follows it
	// meanwhile.
	Followed *event.Value[protocol.Fleet]
	// Changed returns a channel that closes when the voters may be others; nil: never.
	Changed func() <-chan struct{}
}

// AwaitTurn waits for the turn, and takes it. The node holds a place in the queue meanwhile, on a
// lease. The answer is Granted, or Held if the node has one already, or NotController.
// When ctx ends before, it returns the error of ctx.
func AwaitTurn(ctx context.Context, client *etcd.Client, w TurnWait) (nodeturns.Answer, error) {
	answer, done, err := w.try(ctx, client)
	if done || err != nil {
		return answer, err
	}
	for {
		err := client.WithSession(ctx, turnLease, func(held context.Context, s *etcd.Session) error {
			answer, err = w.wait(held, client, s)
			return err
		})
		if err == nil || !errors.Is(err, etcd.ErrSessionLost) || ctx.Err() != nil {
			return answer, errors.Join(err, ctx.Err())
		}
	}
}

// try takes the turn once. done: there is nothing to wait for.
func (w TurnWait) try(ctx context.Context, client *etcd.Client) (answer nodeturns.Answer, done bool, err error) {
	want := w.Want
	want.Since = time.Now().UTC()
	if limit := w.Want.Until.Sub(w.Want.Since); !w.Want.Until.IsZero() {
		want.Until = want.Since.Add(limit)
	}
	out := time.Duration(0)
	if w.Out != nil {
		out = w.Out()
	}
	answer, f, err := TakeTurn(ctx, client, want, w.Voters(), out)
	if answer.Verdict == nodeturns.Granted && w.Took != nil && mayBeWritten(err) {
		w.Took(asRead(want))
	}
	if err != nil {
		return answer, false, err
	}
	switch answer.Verdict {
	case nodeturns.Granted, nodeturns.Held, nodeturns.NotController:
		return answer, true, nil
	default:
		w.Told(answer, f)
		return answer, false, nil
	}
}

// mayBeWritten reports whether a write with this result was carried out, or may have been.
func mayBeWritten(err error) bool {
	return err == nil || !errors.Is(err, etcd.ErrChanged) && !etcd.NotExecuted(err)
}

// turnCheck is how long after an attempt another one follows, if nothing that it follows
// changed: the voters of a command are the ones that a sidecar showed it.
const turnCheck = 5 * time.Second

// wait keeps a place in the queue until the turn is taken.
func (w TurnWait) wait(ctx context.Context, client *etcd.Client, s *etcd.Session) (nodeturns.Answer, error) {
	fleets := w.Followed
	if fleets == nil {
		followed, end := Follow(ctx, client)
		defer end()
		fleets = followed
	}
	for {
		s.Beat()
		now, changed := fleets.Load()
		if err := w.enqueue(ctx, client, s, now.Turns); err != nil {
			return nodeturns.Answer{}, err
		}
		answer, done, err := w.try(ctx, client)
		if done || ctx.Err() != nil {
			return answer, context.Cause(ctx)
		}
		if err != nil {
			w.Told(nodeturns.Answer{Message: err.Error()}, now)
		}
		limited, cancel := context.WithTimeout(ctx, turnCheck)
		channels := []<-chan struct{}{changed}
		if w.Changed != nil {
			channels = append(channels, w.Changed())
		}
		event.Wait(limited, channels...)
		cancel()
		if ctx.Err() != nil {
			return answer, context.Cause(ctx)
		}
	}
}

// enqueue writes the request, unless one of this node waits already.
func (w TurnWait) enqueue(ctx context.Context, client *etcd.Client, s *etcd.Session, now protocol.Turns) error {
	if slices.ContainsFunc(now.Waiting, func(r protocol.TurnRequest) bool { return r.Node == w.Want.Node }) {
		return nil
	}
	key := keyspace.Under(client.Prefix()).TurnWaiting(w.Want.Node)
	request := protocol.TurnRequest{Node: w.Want.Node, Since: w.Want.Since, Message: w.Want.What(), By: w.Want.By}
	_, err := client.Write(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		clientv3.OpPut(key, string(encodeTurnRequest(request)), clientv3.WithLease(s.Lease())))
	if errors.Is(err, etcd.ErrChanged) {
		return nil
	}
	return err
}
