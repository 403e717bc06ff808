package app

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Two sidecars with one node ID on one machine: the newer one wins.
func TestRun_duplicateOnThisMachine(t *testing.T) {
	server, _, api := ledByNewer(t)
	older := start(t, configure(t, server.Endpoints()[0], api))
	older.awaitReason(protocol.Ready)
	newer := start(t, configure(t, server.Endpoints()[0], api))
	newer.awaitReason(protocol.Ready)
	err := older.ended()
	var duplicate *fleet.DuplicateError
	if !errors.As(err, &duplicate) || duplicate.Newcomer || !strings.Contains(err.Error(), "on this machine") {
		t.Errorf("the older one ended with %v", err)
	}
}

// On another machine, while the presence exists, the newcomer is rejected and
// writes nothing.
func TestRun_duplicateOnAnotherMachine(t *testing.T) {
	server, api := etcdtest.New(t), newCountingAPI(t)
	raw := server.Client(t)
	first := start(t, configure(t, server.Endpoints()[0], api))
	first.awaitReason(protocol.StatusMissing)
	before, err := raw.Get(t.Context(), keys.Node("me"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(configure(t, server.Endpoints()[0], api), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.id.machineID = "another"
	a.presence = fleet.NewPresence(fleet.PresenceConfig{
		Client: a.etcd, Node: "me", Instance: "i", MachineID: "another", TTL: 3 * time.Second, Shown: a.shown, Log: a.log,
	})
	var duplicate *fleet.DuplicateError
	if err := a.Run(t.Context()); !errors.As(err, &duplicate) || !duplicate.Newcomer {
		t.Errorf("the newcomer ended with %v", err)
	}
	last, err := raw.Get(t.Context(), keys.Node("me"))
	if err != nil {
		t.Fatal(err)
	}
	if before.Kvs[0].ModRevision != last.Kvs[0].ModRevision {
		t.Error("the newcomer wrote the record")
	}
}
