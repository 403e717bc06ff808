package fleet

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// A node dies in its turn, and people remove it: the next node gets its turn.
func TestRemove_inItsTurn(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	for _, id := range []string{"a", "b", "c"} {
		putServing(t, raw, id)
	}
	take := func(id protocol.NodeID) nodeturns.Answer {
		t.Helper()
		answer, _, err := TakeTurn(t.Context(), client, turnOf(id), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if got := take("a"); got.Verdict != nodeturns.Granted {
		t.Fatalf("got %+v", got)
	}
	if _, err := raw.Delete(t.Context(), keys.Presence("a")); err != nil {
		t.Fatal(err)
	}
	if got := take("b"); got.Verdict != nodeturns.Taken || got.For != "a" {
		t.Fatalf("of a dead node: got %+v", got)
	}
	if err := Remove(t.Context(), client, "a"); err != nil {
		t.Fatal(err)
	}
	if got := take("b"); got.Verdict != nodeturns.Granted {
		t.Errorf("of a removed node: got %+v", got)
	}
}

// The services of a node that leaves for good may have a turn, which ends with its record. In another turn, the work may go on:
// record and turn stay, with the cordon.
func TestRegistrar_retiresInItsTurn(t *testing.T) {
	for kind, stays := range map[protocol.TurnKind]bool{protocol.TurnOfServices: false, protocol.TurnOfCommand: true} {
		e := newEphemeral(t)
		turn := protocol.Turn{Node: "me", Kind: kind, Since: time.Now().UTC(), Work: protocol.TurnWorkUnderWay}
		if _, err := e.raw.Put(t.Context(), keys.Turn("me"), string(encodeTurn(turn))); err != nil {
			t.Fatal(err)
		}
		want := map[bool]noderecord.Retirement{true: noderecord.KeepRecord, false: noderecord.DeleteRecord}[stays]
		if decision, why, err := e.retire(); err != nil || decision != want {
			t.Fatalf("%s: got %v, %q, %v", kind, decision, why, err)
		}
		if kept, _ := e.has(); kept != stays {
			t.Errorf("%s: the record exists: %t, want %t", kind, kept, stays)
		}
		f, err := List(t.Context(), e.client)
		if err != nil {
			t.Fatal(err)
		}
		if _, found := f.Turns.Of("me"); found != stays {
			t.Errorf("%s: the turn exists: %t, want %t", kind, found, stays)
		}
	}
}
