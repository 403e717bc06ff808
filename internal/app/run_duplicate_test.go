package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/role"
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

// Nor does it start services, although the roles on its disk are known before etcd
// answers.
func TestRun_duplicateStartsNoServices(t *testing.T) {
	server, api := etcdtest.New(t), newCountingAPI(t)
	cfg, log, _ := withServices(t, configure(t, server.Endpoints()[0], api))
	client, err := etcd.NewClient(etcd.Config{Endpoints: server.Endpoints(), Prefix: cfg.Etcd.Prefix})
	if err != nil {
		t.Fatal(err)
	}
	other := fleet.NewPresence(fleet.PresenceConfig{
		Client: client, Node: "me", Instance: "other", MachineID: "another", TTL: 3 * time.Second,
		Shown: event.New(fleet.Shown{}), Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var holding sync.WaitGroup
	holding.Go(func() { _ = other.Run(ctx) }) // it ends with ctx
	t.Cleanup(func() { cancel(); holding.Wait(); _ = client.Close() })
	for lease, written := other.Lease().Load(); lease == clientv3.NoLease; lease, written = other.Lease().Load() {
		<-written
	}
	disk := role.NewDisk(datadir.Layout(cfg.DataDir).Roles())
	if err := errors.Join(os.Mkdir(cfg.DataDir, 0o700), disk.SetRoles(protocol.Roles{Controller: true})); err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var duplicate *fleet.DuplicateError
	if err := a.Run(t.Context()); !errors.As(err, &duplicate) || !duplicate.Newcomer {
		t.Errorf("the newcomer ended with %v", err)
	}
	if text, err := os.ReadFile(log); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a service ran: %s, %v", text, err)
	}
}
