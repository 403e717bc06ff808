package fleet

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A cordon that is over when the registrar reads it is noted, since the clocks may differ.
func TestRegistrar_cordonOver(t *testing.T) {
	server := etcdtest.New(t)
	client := newClient(t, server.Endpoints()...)
	r, _ := registrarOf(t, newClient(t, server.Endpoints()...))
	await(t, r.Registration(), "the first registration", confirmed)
	set := func(c protocol.Cordon) {
		t.Helper()
		if _, err := SetCordon(t.Context(), client, "me", CordonChange{Cordon: c, Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().UTC()
	over := protocol.Cordon{Since: now.Add(-time.Hour), Until: now.Add(-time.Minute)}
	set(over)
	got := await(t, r.CordonOver(), "the cordon that is over", func(o CordonOver) bool { return o.Cordon == over })
	if got.Read.Before(now) {
		t.Errorf("got %+v, want the time at which it was read", got)
	}
	await(t, r.cfg.Fleet, "the record without it", func(f protocol.Fleet) bool {
		own, found := f.Record("me")
		return found && !own.Node.Cordon.On() && own.Writes > 2 // the registration, the cordon, its end
	})
}

// A cordon of people that ends while the work of a turn is under way keeps the node out of service until that is done.
func TestRegistrar_cordonOver_inTurn(t *testing.T) {
	server := etcdtest.New(t)
	client := newClient(t, server.Endpoints()...)
	r, _ := registrarOf(t, newClient(t, server.Endpoints()...))
	await(t, r.Registration(), "the first registration", confirmed)
	now := time.Now().UTC()
	turn := protocol.Turn{Node: "me", Kind: protocol.TurnOfPeople, Since: now, Work: protocol.TurnWorkUnderWay}
	if _, err := client.Write(t.Context(), nil, clientv3.OpPut(keys.Turn("me"), string(encodeTurn(turn)))); err != nil {
		t.Fatal(err)
	}
	await(t, r.cfg.Fleet, "the turn", func(f protocol.Fleet) bool { return f.Turns.Works("me") })
	over := protocol.Cordon{Since: now.Add(-time.Hour), Until: now.Add(-time.Minute)}
	if _, err := SetCordon(t.Context(), client, "me", CordonChange{Cordon: over, Force: true}); err != nil {
		t.Fatal(err)
	}
	await(t, r.Registration(), "the closed gate", func(now protocol.Registration) bool { return now.Cordon == over })
	if record(t, server.Client(t)).Node.Cordon != over {
		t.Error("the node returns to service in the middle of the work")
	}
	if err := SetTurnWork(t.Context(), client, turn, protocol.TurnWorkDone); err != nil {
		t.Fatal(err)
	}
	await(t, r.Registration(), "the open gate", func(now protocol.Registration) bool { return !now.Cordon.On() })
}

// A cordon that was in force is not noted when it ends, nor one before its end.
func TestRegistrar_noteOver(t *testing.T) {
	r := NewRegistrar(RegistrarConfig{Client: newClient(t, "http://127.0.0.1:1"), Log: discard()})
	now := time.Now().UTC()
	over := protocol.Cordon{Since: now.Add(-time.Hour), Until: now.Add(-time.Minute)}
	for _, tc := range []struct {
		inForce, read protocol.Cordon
		want          bool
	}{
		{over, over, false},
		{protocol.Cordon{}, protocol.Cordon{Since: now, Until: now.Add(time.Minute)}, false},
		{protocol.Cordon{}, protocol.Cordon{Since: now}, false},
		{protocol.Cordon{}, protocol.Cordon{}, false},
		{protocol.Cordon{Since: now}, over, true},
		{protocol.Cordon{}, over, true},
	} {
		r.cordonOver.Set(CordonOver{})
		r.registration.Set(protocol.Registration{Matches: true, Cordon: tc.inForce})
		r.last.Node.Cordon = tc.read
		r.noteOver(now)
		if got := r.CordonOver().Get(); (got.Cordon == tc.read && got.Read.Equal(now)) != tc.want {
			t.Errorf("%+v while %+v is in force: got %+v, want %t", tc.read, tc.inForce, got, tc.want)
		}
	}
}
