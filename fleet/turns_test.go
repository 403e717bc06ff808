package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

func turnOf(id protocol.NodeID) protocol.Turn {
	return protocol.Turn{
		Node: id, Since: time.Now().UTC(), Until: time.Now().Add(time.Hour).UTC(), Message: "new\xff flags", By: "root@" + string(id),
		Kind: protocol.TurnOfCommand, Command: "restart it",
	}
}

func noVoters() []protocol.Voter { return nil }

func awaitTurn(ctx context.Context, client *etcd.Client, id protocol.NodeID, told func(nodeturns.Answer, protocol.Fleet)) (nodeturns.Answer, error) {
	if told == nil {
		told = func(nodeturns.Answer, protocol.Fleet) {}
	}
	return AwaitTurn(ctx, client, TurnWait{Want: turnOf(id), Voters: noVoters, Told: told})
}

// heldBy returns the turn that a node has.
func heldBy(t *testing.T, client *etcd.Client, id protocol.NodeID) protocol.Turn {
	t.Helper()
	f, err := List(t.Context(), client)
	if err != nil {
		t.Error(err)
	}
	has, found := f.Turns.Of(id)
	if !found {
		t.Errorf("node %q has no turn", id)
	}
	return has
}

// A turn is taken with the cordon of the node, and ends when the node serves again.
func TestTakeTurn(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	take := func(id protocol.NodeID) nodeturns.Verdict {
		t.Helper()
		answer, _, err := TakeTurn(t.Context(), client, turnOf(id), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Verdict
	}
	var held protocol.Turn
	advance := func(votes bool, want nodeturns.Action) {
		t.Helper()
		if got, err := AdvanceTurn(t.Context(), client, held, votes); err != nil || got != want {
			t.Fatalf("got %d, %v, want %d", got, err, want)
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		putServing(t, raw, id)
	}
	if got := take("a"); got != nodeturns.Granted {
		t.Fatalf("got %d", got)
	}
	held = heldBy(t, client, "a")
	a := get(t, raw, "a")
	if held.Work != protocol.TurnWorkUnderWay || held.Command != "restart it" || held.Message != "new flags" || a.Node.Cordon != held.Cordon() || !a.Node.Cordon.Turn {
		t.Fatalf("got %+v, and %+v", held, a.Node.Cordon)
	}
	if got := take("a"); got != nodeturns.Held {
		t.Errorf("again: got %d", got)
	}
	if got := take("b"); got != nodeturns.Taken {
		t.Errorf("another node: got %d", got)
	}
	advance(true, nodeturns.Keep)
	if err := SetTurnWork(t.Context(), client, held, protocol.TurnWorkDone); err != nil {
		t.Fatal(err)
	}
	advance(true, nodeturns.ReturnToService)
	advance(false, nodeturns.AwaitService)
	advance(true, nodeturns.End)
	if _, err := AdvanceTurn(t.Context(), client, held, true); !errors.Is(err, ErrNoTurn) {
		t.Errorf("it has ended: got %v", err)
	}
	if get(t, raw, "a").Node.Cordon.On() {
		t.Error("the cordon of the turn stays")
	}
	if got := take("b"); got != nodeturns.Granted {
		t.Errorf("the next one: got %d", got)
	}
	if was, err := ForceTurnEnd(t.Context(), client, "b"); err != nil || was.Node != "b" || get(t, raw, "b").Node.Cordon.On() {
		t.Errorf("by force: got %+v, %v", was, err)
	}
}

// People end a turn by force, and services take one on that node: it is not changed for the first.
func TestSetTurnWork_anotherTurn(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	putServing(t, raw, "a")
	putServing(t, raw, "b")
	take := func(kind protocol.TurnKind) protocol.Turn {
		t.Helper()
		want := turnOf("a")
		want.Kind = kind
		if answer, _, err := TakeTurn(t.Context(), client, want, nil, 0); err != nil || answer.Verdict != nodeturns.Granted {
			t.Fatalf("got %+v, %v", answer, err)
		}
		return heldBy(t, client, "a")
	}
	had := take(protocol.TurnOfCommand)
	if _, err := ForceTurnEnd(t.Context(), client, "a"); err != nil {
		t.Fatal(err)
	}
	has := take(protocol.TurnOfServices)
	for name, change := range map[string]func() error{
		"done":   func() error { return SetTurnWork(t.Context(), client, had, protocol.TurnWorkDone) },
		"failed": func() error { return FailTurnWork(t.Context(), client, had, "exit code 5") },
		"ended": func() error {
			_, err := AdvanceTurn(t.Context(), client, had, true)
			return err
		},
		"given back": func() error { return GiveTurnBack(t.Context(), client, had) },
	} {
		if err := change(); !errors.Is(err, ErrNoTurn) || !strings.Contains(err.Error(), "has ended, and now it has another one (services)") {
			t.Errorf("%s: got %v", name, err)
		}
		if now := heldBy(t, client, "a"); now != has || get(t, raw, "a").Node.Cordon != has.Cordon() {
			t.Errorf("%s: got %+v, want %+v", name, now, has)
		}
	}
	if err := GiveTurnBack(t.Context(), client, has); err != nil || get(t, raw, "a").Node.Cordon.On() {
		t.Errorf("got %v", err)
	}
}

// What people have cordoned before, they return to service.
func TestTakeTurn_cordoned(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	putServing(t, raw, "a")
	putServing(t, raw, "b")
	theirs := cordonFor("disk")
	if _, err := SetCordon(t.Context(), client, "a", CordonChange{Cordon: theirs}); err != nil {
		t.Fatal(err)
	}
	if answer, _, err := TakeTurn(t.Context(), client, turnOf("a"), nil, 0); err != nil || answer.Verdict != nodeturns.Granted {
		t.Fatalf("got %+v, %v", answer, err)
	}
	if _, err := ForceTurnEnd(t.Context(), client, "a"); err != nil || get(t, raw, "a").Node.Cordon != theirs {
		t.Errorf("got %v, and %+v", err, get(t, raw, "a").Node.Cordon)
	}
}

// The limit is that of the fleet.
func TestSetTurnLimit(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	for _, id := range []string{"a", "b", "c"} {
		putServing(t, raw, id)
	}
	if err := SetTurnLimit(t.Context(), client, 2); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		id      protocol.NodeID
		verdict nodeturns.Verdict
	}{{"a", nodeturns.Granted}, {"b", nodeturns.Granted}, {"c", nodeturns.Taken}} {
		if got, _, err := TakeTurn(t.Context(), client, turnOf(want.id), nil, 0); err != nil || got.Verdict != want.verdict {
			t.Errorf("%s: got %+v, %v, want %d", want.id, got, err, want.verdict)
		}
	}
}

// All nodes ask at the same moment, again and again: one has the turn at a time, and the others
// wait in the queue.
func TestAwaitTurn_allAtOnce(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	ids := []protocol.NodeID{"a", "b", "c"}
	for _, id := range ids {
		putServing(t, raw, string(id))
	}
	var nodes sync.WaitGroup
	var mu sync.Mutex // mu guards at
	at := map[protocol.NodeID]bool{}
	for _, id := range ids {
		nodes.Go(func() {
			for range 5 {
				answer, err := awaitTurn(t.Context(), client, id, nil)
				if err != nil || answer.Verdict != nodeturns.Granted {
					t.Errorf("got %+v, %v", answer, err)
					return
				}
				mu.Lock()
				at[id] = true
				if len(at) > 1 {
					t.Errorf("several have the turn: %v", at)
				}
				delete(at, id)
				mu.Unlock()
				has := heldBy(t, client, id)
				if err := SetTurnWork(t.Context(), client, has, protocol.TurnWorkDone); err != nil {
					t.Error(err)
				}
				for action := nodeturns.Keep; action != nodeturns.End; {
					if action, err = AdvanceTurn(t.Context(), client, has, true); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	nodes.Wait()
	if f, err := List(t.Context(), client); err != nil || len(f.Turns.Held)+len(f.Turns.Waiting) != 0 {
		t.Errorf("got %+v, %v", f.Turns, err)
	}
}

// A node waits for one that is dead, and says so; it gets its turn when that one serves again. The
// follower shows the queue.
func TestAwaitTurn_deadNode(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	putServing(t, raw, "a")
	putServing(t, raw, "b")
	putNode(t, raw, node(t, "c", "1.0.0"))
	follower := NewFollower(newClient(t, server.Endpoints()...))
	run(t, follower.Run)
	why := event.New(nodeturns.Answer{})
	ended := make(chan nodeturns.Answer, 1) // the one answer
	go func() {
		answer, err := awaitTurn(t.Context(), client, "a", func(a nodeturns.Answer, _ protocol.Fleet) { why.Set(a) })
		if err != nil {
			t.Error(err)
		}
		ended <- answer
	}()
	await(t, why, "why it waits", func(a nodeturns.Answer) bool { return a.Verdict == nodeturns.WaitsForNode && a.For == "c" })
	f := await(t, follower.Fleet(), "the queue", func(f protocol.Fleet) bool { return len(f.Turns.Waiting) == 1 })
	if w := f.Turns.Waiting[0]; w.Node != "a" || w.By != "root@a" || w.Created == 0 {
		t.Errorf("got %+v", w)
	}
	putServing(t, raw, "c")
	if answer := <-ended; answer.Verdict != nodeturns.Granted {
		t.Errorf("got %+v", answer)
	}
	await(t, follower.Fleet(), "the turn", func(f protocol.Fleet) bool {
		return len(f.Turns.Waiting) == 0 && slices.ContainsFunc(f.Turns.Held, func(h protocol.Turn) bool { return h.Node == "a" })
	})
}

// A wait that ends leaves the queue.
func TestAwaitTurn_givenUp(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	putServing(t, raw, "a")
	ctx, cancel := context.WithCancel(t.Context())
	answers := 0
	_, err := awaitTurn(ctx, client, "a", func(a nodeturns.Answer, _ protocol.Fleet) {
		if answers++; answers == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if f, err := List(t.Context(), client); err != nil || len(f.Turns.Waiting) != 0 {
		t.Errorf("got %+v, %v", f.Turns, err)
	}
}

// The write that takes a turn gets no answer, before the program that sent it is given up or after that: it gives the
// turn back. Etcd may also execute the write later.
func TestAwaitTurn_unanswered(t *testing.T) {
	for name, late := range map[string]bool{"executed before": false, "executed later": true} {
		t.Run(name, func(t *testing.T) {
			server := etcdtest.New(t)
			raw, client := server.Client(t), newClient(t, server.Endpoints()...)
			putServing(t, raw, "a")
			putServing(t, raw, "b")
			received, execute := server.DelayWrite(keys.Turn("a"))
			defer execute()
			ctx, giveUp := context.WithCancel(t.Context())
			go func() {
				<-received
				if late {
					giveUp()
				} else {
					execute()
				}
			}()
			var took []protocol.Turn
			_, err := AwaitTurn(ctx, client, TurnWait{
				Want: turnOf("a"), Voters: noVoters, Told: func(nodeturns.Answer, protocol.Fleet) {},
				Took: func(t protocol.Turn) { took = append(took, t) },
			})
			giveUp()
			if err == nil || len(took) != 1 {
				t.Fatalf("got %v, and %+v", err, took)
			}
			if err := GiveTurnBack(t.Context(), client, took[0]); errors.Is(err, ErrNoTurn) != late || err != nil && !late {
				t.Errorf("got %v", err)
			}
			execute()
			if f, err := List(t.Context(), client); err != nil || len(f.Turns.Held) > 0 || get(t, raw, "a").Node.Cordon.On() {
				t.Errorf("got %+v, %v, and the cordon %+v", f.Turns, err, get(t, raw, "a").Node.Cordon)
			}
			if answer, _, err := TakeTurn(t.Context(), client, turnOf("b"), nil, 0); err != nil || answer.Verdict != nodeturns.Granted {
				t.Errorf("the other node: got %+v, %v", answer, err)
			}
		})
	}
}

// The refusal of a late write gets no answer, either: the node may get the turn yet, so it does not count as given back.
func TestGiveTurnBack_unanswered(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	putServing(t, raw, "a")
	received, execute := server.DelayWrite(keys.TurnLimit())
	defer execute()
	ctx, giveUp := context.WithCancel(t.Context())
	go func() {
		<-received
		giveUp()
	}()
	if err := GiveTurnBack(ctx, client, turnOf("a")); err == nil || errors.Is(err, ErrNoTurn) {
		t.Errorf("got %v", err)
	}
}

// Any client of etcd can write a turn: one that cannot be decoded is held.
func TestDecodeTurns_garbage(t *testing.T) {
	l := etcd.Listing{KVs: []*etcd.KV{
		{Key: keys.Turn("a"), Value: []byte("\xff")}, {Key: keys.Turn("b"), Value: encodeTurn(turnOf("c"))},
		{Key: keys.TurnLimit(), Value: []byte("\xff")}, {Key: keys.TurnWaiting("c"), Value: []byte("\xff"), CreateRevision: 7},
	}}
	got := decodeTurns(keys, l)
	if len(got.Held) != 2 || got.Held[0].Node != "a" || got.Held[1].Node != "b" || got.Held[1].Command != "" || got.Limit != 0 ||
		len(got.Waiting) != 1 || got.Waiting[0].Created != 7 {
		t.Errorf("got %+v", got)
	}
}
