package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
	"github.com/lockstep-dev/lockstep/trace"
)

// ephemeral is a registrar of node "me" whose record is ephemeral, with its presence.
type ephemeral struct {
	*testing.T
	raw       *clientv3.Client
	client    *etcd.Client
	presence  *Presence
	registrar *Registrar
	stop      func() // stops the registrar, as a sidecar does before it deletes its record
	end       func() // stops the presence
}

func newEphemeral(t *testing.T) *ephemeral {
	t.Helper()
	server := etcdtest.New(t)
	e := &ephemeral{T: t, raw: server.Client(t), client: newClient(t, server.Endpoints()...)}
	f := NewFollower(e.client)
	run(t, f.Run)
	e.presence = presenceOf(e.client, "i")
	e.end = e.until(e.presence.Run)
	e.registrar = NewRegistrar(RegistrarConfig{
		Presence: e.presence.Lease(), Client: e.client, BootID: "boot", Fleet: f.Fleet(), Store: f.Store(), Trace: trace.ForTest(t), Log: discard(),
		Local: event.New(protocol.Local{ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")}, ExpireAfter: time.Minute, Ephemeral: true}),
	})
	e.stop = e.until(e.registrar.Run)
	await(t, e.registrar.Registration(), "registered", confirmed)
	return e
}

// until runs a worker until the returned function is called.
func (e *ephemeral) until(worker func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(e.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = worker(ctx) // tests look at what it has done
	}()
	stop = func() { cancel(); <-ended }
	e.Cleanup(stop)
	return stop
}

// retire lets the registrar decide, as after a graceful stop.
func (e *ephemeral) retire() (noderecord.Retirement, string, error) {
	e.Helper()
	e.stop()
	e.presence.Rest()
	ctx, cancel := context.WithTimeout(e.Context(), 20*time.Second)
	defer cancel()
	return e.registrar.deleteRecord(ctx, noderecord.RetireFacts{Ephemeral: true, GateClosed: true, Refused: noderecord.StoppedAfter})
}

// has reports which of record and presence exist.
func (e *ephemeral) has() (kept, alive bool) {
	e.Helper()
	resp, err := e.raw.Txn(e.Context()).Then(clientv3.OpGet(keys.Node("me")), clientv3.OpGet(keys.Presence("me"))).Commit()
	if err != nil {
		e.Fatal(err)
	}
	return resp.Responses[0].GetResponseRange().Count > 0, resp.Responses[1].GetResponseRange().Count > 0
}

// Both keys are deleted at one revision, and neither comes back.
func TestRegistrar_retires(t *testing.T) {
	e := newEphemeral(t)
	if !record(t, e.raw).Node.Ephemeral {
		t.Error("the record is not ephemeral")
	}
	before := record(t, e.raw).Revision
	if decision, why, err := e.retire(); decision != noderecord.DeleteRecord || err != nil {
		t.Fatalf("got %s (%q), %v", decision, why, err)
	}
	e.end()
	if kept, alive := e.has(); kept || alive {
		t.Errorf("record=%t presence=%t after the end", kept, alive)
	}
	deleted := map[string]int64{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for resp := range e.raw.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(before), clientv3.WithFilterPut()) {
		for _, ev := range resp.Events {
			deleted[string(ev.Kv.Key)] = ev.Kv.ModRevision
		}
		if len(deleted) == 2 {
			break
		}
	}
	if at := deleted[keys.Node("me")]; at == 0 || at != deleted[keys.Presence("me")] {
		t.Errorf("got %v, want both deleted at one revision", deleted)
	}
}

// A record that people changed meanwhile is read again. A role that they took away
// makes it stay.
func TestRegistrar_retiresWhatPeopleDecided(t *testing.T) {
	e := newEphemeral(t)
	e.stop()
	n := record(t, e.raw).Node
	n.Roles.Controller = false
	putNode(t, e.raw, n)
	if decision, why, err := e.retire(); decision != noderecord.KeepRecord || why == "" || err != nil {
		t.Errorf("got %s (%q), %v", decision, why, err)
	}
	if kept, _ := e.has(); !kept {
		t.Error("the record was deleted")
	}
}

// A record that was written since the sidecar read it may have other roles: it stays, and is read
// again.
func TestRegistrar_retiresUnchangedRecord(t *testing.T) {
	e := newEphemeral(t)
	e.stop()
	e.presence.Rest()
	read, lease := record(t, e.raw), e.presence.Lease().Get()
	n := read.Node
	n.Roles.Controller = false
	putNode(t, e.raw, n)
	if err := e.registrar.deleteOwn(t.Context(), read, protocol.Turn{}, lease); !errors.Is(err, etcd.ErrChanged) {
		t.Errorf("got %v, want ErrChanged", err)
	}
	if kept, alive := e.has(); !kept || !alive {
		t.Errorf("record=%t presence=%t, want both", kept, alive)
	}
	turn := protocol.Turn{Node: "me", Kind: protocol.TurnOfCommand}
	turn.Revision = put(t, e.raw, keys.Turn("me"), encodeTurn(turn))
	if err := e.registrar.deleteOwn(t.Context(), record(t, e.raw), protocol.Turn{}, lease); !errors.Is(err, etcd.ErrChanged) {
		t.Errorf("in a turn that it has not read: got %v, want ErrChanged", err)
	}
	if err := e.registrar.deleteOwn(t.Context(), record(t, e.raw), turn, lease); err != nil {
		t.Error(err)
	}
	if kept, alive := e.has(); kept || alive {
		t.Errorf("record=%t presence=%t, want none", kept, alive)
	}
}

// A corrupt record would block for ever. Its sidecar deletes it by the roles that it
// knows.
func TestRegistrar_retiresCorruptRecord(t *testing.T) {
	e := newEphemeral(t)
	e.stop()
	put(t, e.raw, keys.Node("me"), []byte("garbage"))
	if decision, why, err := e.retire(); decision != noderecord.DeleteRecord || err != nil {
		t.Errorf("got %s (%q), %v", decision, why, err)
	}
	if kept, _ := e.has(); kept {
		t.Error("the record is still there")
	}
}

// Another sidecar has taken the node ID over, and registered: its record stays.
func TestRegistrar_retiresRecordOfAnother(t *testing.T) {
	e := newEphemeral(t)
	e.stop()
	e.presence.Rest()
	lease, err := e.raw.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.raw.Put(t.Context(), keys.Presence("me"), "", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	putNode(t, e.raw, node(t, "me", "1.2.0"))
	if decision, _, err := e.retire(); decision != noderecord.KeepRecord || err == nil {
		t.Errorf("got %s, %v, want an error", decision, err)
	}
	if kept, alive := e.has(); !kept || !alive {
		t.Errorf("record=%t presence=%t, want both", kept, alive)
	}
}

// A registrar that runs writes its record again if a leader deleted it.
func TestRegistrar_registersAfterDeletion(t *testing.T) {
	e := newEphemeral(t)
	first := record(t, e.raw)
	if _, err := e.raw.Delete(t.Context(), keys.Node("me")); err != nil {
		t.Fatal(err)
	}
	await(t, e.registrar.Registration(), "registered again", func(r protocol.Registration) bool {
		return r.Matches && r.Revision > first.Revision
	})
	if again := record(t, e.raw); again.Created <= first.Created || !again.Node.Ephemeral || !again.Node.Roles.Controller {
		t.Errorf("got %+v after %+v", again, first)
	}
}

func TestDeleteExpired(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	leaderKey := keys.Leader(1)
	epoch := put(t, raw, leaderKey, []byte("leader"))
	for name, tc := range map[string]struct {
		change func(id protocol.NodeID, d *Deletion)
		want   bool
	}{
		"as the snapshot has it": {func(protocol.NodeID, *Deletion) {}, true},
		"written since":          {func(id protocol.NodeID, _ *Deletion) { putNode(t, raw, node(t, string(id), "1.0.0")) }, false},
		"present":                {func(id protocol.NodeID, _ *Deletion) { put(t, raw, keys.Presence(id), nil) }, false},
		"has a turn since": {func(id protocol.NodeID, _ *Deletion) {
			put(t, raw, keys.Turn(id), encodeTurn(protocol.Turn{Node: id, Kind: protocol.TurnOfCommand}))
		}, false},
		"in the turn of its services": {func(id protocol.NodeID, d *Deletion) {
			d.Turn.Revision = put(t, raw, keys.Turn(id), encodeTurn(protocol.Turn{Node: id, Kind: protocol.TurnOfServices}))
		}, true},
		"deposed": {func(_ protocol.NodeID, d *Deletion) { d.Epoch-- }, false},
	} {
		t.Run(name, func(t *testing.T) {
			id := protocol.NodeID(t.Name()[len("TestDeleteExpired/"):])
			d := Deletion{Record: protocol.Record{ID: id, Revision: putNode(t, raw, node(t, string(id), "1.0.0"))}, LeaderKey: leaderKey, Epoch: epoch}
			tc.change(id, &d)
			got, err := DeleteExpired(t.Context(), client, d)
			if err != nil || got != tc.want {
				t.Errorf("got %t, %v, want %t", got, err, tc.want)
			}
			resp, err := raw.Get(t.Context(), keys.Node(id))
			if err != nil || (len(resp.Kvs) == 0) != tc.want {
				t.Errorf("left %v, %v", resp.Kvs, err)
			}
			if resp, err := raw.Get(t.Context(), keys.Turn(id)); err != nil || tc.want && len(resp.Kvs) > 0 {
				t.Errorf("left the turn %v, %v", resp.Kvs, err)
			}
		})
	}
}

// People who change roles keep the mark.
func TestEncode_ephemeral(t *testing.T) {
	n := node(t, "me", "1.0.0")
	n.Ephemeral = true
	if got, problem := decodeNode("me", Encode(n)); problem != "" || got != n {
		t.Errorf("got %+v (%q), want %+v", got, problem, n)
	}
	value, _, err := withRoles("me", Encode(n), RoleChange{Roles: protocol.Roles{Worker: true}})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := decodeNode("me", value); !got.Ephemeral || !got.Roles.Worker {
		t.Errorf("got %+v", got)
	}
}

// Of a record that is corrupt or another node's, the roles that were read last count, and before that
// those of a first record.
func TestRegistrar_rolesOf(t *testing.T) {
	r := NewRegistrar(RegistrarConfig{
		Client: newClient(t, "http://127.0.0.1:1"), Local: event.New(protocol.Local{ID: "me"}),
		First: func() (protocol.Roles, bool) { return protocol.Roles{Controller: true}, true },
	})
	others := protocol.Record{ID: "me", Revision: 9, Node: protocol.Node{ID: "other", Roles: protocol.Roles{Consensus: true}}}
	if got, known := r.rolesOf(others); got != (protocol.Roles{Controller: true}) || !known {
		t.Errorf("before one was read: got %v, %t", got.Names(), known)
	}
	r.last = protocol.Record{ID: "me", Revision: 5, Node: protocol.Node{ID: "me", Roles: protocol.Roles{Worker: true}}}
	if got, known := r.rolesOf(others); got != (protocol.Roles{Worker: true}) || !known {
		t.Errorf("got %v, %t, want the last ones", got.Names(), known)
	}
	others.Node.ID = "me"
	if got, known := r.rolesOf(others); got != (protocol.Roles{Consensus: true}) || !known {
		t.Errorf("its own: got %v, %t", got.Names(), known)
	}
}
