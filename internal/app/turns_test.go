package app

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/internal/machine"
)

// The sidecar ends the turn of a reboot of its machine, and no other one. It marks that of a command that
// the machine interrupted.
func TestKeepTurns(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	held := func(kind, boot string) int64 {
		t.Helper()
		value, err := proto.Marshal(&lockstepv1.Turn{Node: "me", Kind: kind, Command: "reboot", BootId: boot, Work: "under way"})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := raw.Put(t.Context(), keys.Turn("me"), string(value))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Header.Revision
	}
	held("reboot", machine.BootID()) // the machine did not stop yet
	s := start(t, configure(t, server.Addr(), newCountingAPI(t)))
	s.awaitStatus("that it waits for objects", func(r statusReport) bool { return r.Etcd.Connected && len(r.Fleet.Nodes) == 1 })
	if resp, err := raw.Get(t.Context(), keys.Turn("me")); err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("got %v, %v, want the turn", resp, err)
	}
	// The machine stopped in the middle of a command: the turn is kept, and every node can say why.
	follow(t, raw, held("command", "before"), func(got *lockstepv1.Turn) bool {
		return got.GetWork() == "interrupted" && got.GetProblem() == "the machine stopped in the middle of it, and runs again"
	})
	resp, err := raw.Put(t.Context(), keys.TurnRunning("me"), "") // it is typed again
	if err != nil {
		t.Fatal(err)
	}
	follow(t, raw, resp.Header.Revision, func(got *lockstepv1.Turn) bool {
		return got.GetWork() == "under way" && got.GetProblem() == ""
	})
	// It ends when the node serves, which needs a kube-apiserver.
	follow(t, raw, held("reboot", "before"), func(got *lockstepv1.Turn) bool { return got.GetWork() == "done" })
}

// follow returns when the turn is changed as wanted after a revision.
func follow(t *testing.T, raw *clientv3.Client, from int64, want func(*lockstepv1.Turn) bool) {
	t.Helper()
	for resp := range raw.Watch(t.Context(), keys.Turn("me"), clientv3.WithRev(from+1)) {
		for _, e := range resp.Events {
			var got lockstepv1.Turn
			if e.Type == clientv3.EventTypePut && proto.Unmarshal(e.Kv.Value, &got) == nil && want(&got) {
				return
			}
		}
	}
}
