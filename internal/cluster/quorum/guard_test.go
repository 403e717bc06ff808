package quorum

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/test/members"
)

// putValue writes one key.
func putValue(t *testing.T, client *etcd.Client, key string, value []byte) {
	t.Helper()
	if _, err := client.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpPut(key, string(value))}, nil); err != nil {
		t.Fatal(err)
	}
}

// The decision of a removal is written only if no record changed since: neither the roles of a
// node, nor the record of a member, nor is there a new one. Then the record shows that the member
// is leaving, before etcd is asked.
func TestRemove_judgesAgain(t *testing.T) {
	c := members.New(t)
	client, keys := c.First.Client(), keyspace.Under(members.Prefix)
	b := c.Node("b")
	added := join(t, client, b)
	give(t, client, c.First.Name, "b")
	first := records(t, client).members[c.First.Member.ID()]
	changes := []func(){
		func() { give(t, client, c.First.Name) },
		func() { putValue(t, client, keys.ClusterMember(first.ID), record.EncodeMember(first)) },
		func() { putValue(t, client, keys.ClusterMember(4711), record.EncodeMember(b.Record())) },
		func() {},
	}
	asked, leaving := 0, false
	_, err := Remove(t.Context(), client, Removal{
		Name: "b", Dial: func(url string) (*etcd.Client, error) { return c.First.Client(url), nil },
		Before: func() {
			if asked < len(changes) {
				changes[asked]()
			}
			asked++
		},
		After: func(step string) {
			if step == "leaving" {
				leaving = records(t, client).members[added.ID].Leaving
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if asked != len(changes) {
		t.Errorf("asked %d times, want %d: again after each change", asked, len(changes))
	}
	if !leaving {
		t.Error("etcd was asked to remove a member whose record does not have that it is leaving")
	}
}

// A command that removes a member is killed after a step. The key of the member is refused from then on.
// If etcd has not removed the member yet, the command is typed again; otherwise the keeper of etcd's
// leader deletes the record that is left.
func TestRemove_interrupted(t *testing.T) {
	for _, at := range []string{"leaving", "removed"} {
		t.Run(at, func(t *testing.T) {
			c := members.New(t)
			client := c.First.Client()
			b := c.Node("b")
			added := join(t, client, b)
			removal := Removal{Name: "b", By: "root@cp-1", Dial: func(url string) (*etcd.Client, error) { return c.First.Client(url), nil }}
			ctx, kill := context.WithCancel(t.Context())
			removal.After = func(step string) {
				if step == at {
					kill()
				}
			}
			if _, err := Remove(ctx, client, removal); !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v", err)
			}
			s := records(t, client)
			if len(s.removed) != 1 || s.removed[0].Key != b.Record().Key || s.removed[0].Removed.IsZero() || s.removed[0].By != "root@cp-1" {
				t.Errorf("got the removed members %+v", s.removed)
			}
			if found, err := ReadRemovals(t.Context(), client); err != nil || len(found) != 1 || found[0].Node != "b" || found[0].By != "root@cp-1" || found[0].Revision == 0 {
				t.Errorf("got the removals %+v, %v", found, err)
			}
			if !s.members[added.ID].Leaving {
				t.Errorf("got the members %+v", s.members)
			}
			_, err := Find(t.Context(), client, b.Record())
			if !errors.Is(err, ErrRemoved) {
				t.Errorf("the key is not refused: got %v", err)
			}
			if removal.After = nil; at == "leaving" {
				if _, err := Remove(t.Context(), client, removal); err != nil {
					t.Fatal(err)
				}
			} else {
				k := NewKeeper(KeeperConfig{Client: client, Local: func() string { return c.First.ClientURL }, Log: slog.New(slog.DiscardHandler)})
				if _, err := k.round(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if s := records(t, client); len(s.members) != 1 || len(learners(t, client)) != 0 {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// A node whose record cannot be read keeps its role: it does not leave by itself.
func TestRemove_corruptRoles(t *testing.T) {
	c := members.New(t)
	client := c.First.Client()
	join(t, client, c.Node("b"))
	give(t, client, c.First.Name)
	putValue(t, client, keyspace.Under(members.Prefix).Node("b"), []byte("\xff"))
	if _, err := Remove(t.Context(), client, Removal{Name: "b", Leaves: true}); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v, want it refused", err)
	}
}

// Nothing takes back that a learner is leaving: its node is not added again before it is
// removed, and no record of it says anything else.
func TestAdd_leaving(t *testing.T) {
	c := members.New(t)
	client, keys := c.First.Client(), keyspace.Under(members.Prefix)
	b := c.Node("b")
	id, err := client.AddLearner(t.Context(), b.PeerURL)
	if err != nil {
		t.Fatal(err)
	}
	// The sidecar of etcd's leader evicts it, before its node writes a record.
	k := NewKeeper(KeeperConfig{Client: client})
	if err := k.writeLeaving(t.Context(), id, learnerRecord{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Add(t.Context(), client, Addition{Node: b.Record()}); !errors.Is(err, ErrWait) {
		t.Errorf("got %v, want that it waits", err)
	}
	if m := records(t, client).members[id]; !m.Leaving || m.Node != "" {
		t.Errorf("got the record %+v", m)
	}
	if rec, err := k.record(t.Context(), id); err != nil || !rec.Leaving {
		t.Errorf("got %+v, %v", rec, err)
	}
	// There is a record now, and its node asks again.
	leaving := b.Record()
	leaving.Leaving = true
	putValue(t, client, keys.ClusterMember(id), record.EncodeMember(leaving))
	if got, err := Add(t.Context(), client, Addition{Node: b.Record()}); err != nil || got.ID != id {
		t.Errorf("got %+v, %v", got, err)
	}
	if m := records(t, client).members[id]; !m.Leaving {
		t.Errorf("got the record %+v, want that it is still leaving", m)
	}
	// The keeper writes between its attempt and its record.
	if err := writeRecords(t.Context(), client, stored{}, nil, id, b.Record()); !errors.Is(err, ErrWait) {
		t.Errorf("got %v, want that it waits", err)
	}
}

// Of a node whose member was removed before, the record is left, and the error names the command for
// it. For a node that is known nowhere, there is nothing to remove.
func TestRemove_onlyARecordIsLeft(t *testing.T) {
	c := members.New(t)
	client := c.First.Client()
	give(t, client, "left")
	for node, named := range map[string]bool{"left": true, "nowhere": false} {
		_, err := remove(t, c.First, client, node)
		if got := err != nil && strings.Contains(err.Error(), "type: sidecar node remove "+node+" --confirm-stopped"); got != named || !errors.Is(err, etcd.ErrNoMember) {
			t.Errorf("%s: got %v", node, err)
		}
	}
}

// A node gets its role back after its record shows that it is leaving, and etcd has not removed it: it was powered off,
// or etcd refused. Its removal goes on, also if etcd never got the request, and the node can be added again. Before that,
// no other removal counts on it.
func TestRemove_decidedGoesOn(t *testing.T) {
	_, all, client := newThree(t)
	give(t, client, "a", "b", "c")
	if err := take(t, client, "c"); err != nil {
		t.Fatal(err)
	}
	leave := Removal{Name: "c", Leaves: true, Dial: func(url string) (*etcd.Client, error) { return all[0].Client(url), nil }}
	ctx, kill := context.WithCancel(t.Context())
	interrupted := leave
	interrupted.After = func(step string) {
		if step == "leaving" {
			kill()
		}
	}
	if _, err := Remove(ctx, client, interrupted); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	give(t, client, "a", "b", "c")
	err := fleet.SetRoles(t.Context(), client, "b", fleet.RoleChange{Leave: MayLose(client, Loss{Node: "b"})})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "only copy of the data") {
		t.Errorf("c counts, although it is leaving: got %v", err)
	}
	if _, err := Remove(t.Context(), client, leave); err != nil {
		t.Fatal(err)
	}
	if s := records(t, client); len(s.members) != 2 || len(s.removed) != 0 || voters(t, client) != 2 {
		t.Errorf("got %+v", s)
	}
	await(t, "c is added again", func() bool {
		_, err := Add(t.Context(), client, Addition{Node: all[2].Record()})
		if err != nil && !errors.Is(err, ErrWait) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// An operator removes a member for good: its node, and each one that follows the records, can see that.
func TestRead_removedForGood(t *testing.T) {
	c := members.New(t)
	client, b := c.First.Client(), c.Node("b")
	added, key := join(t, client, b), b.Record().Key
	removal := Removal{Name: "b", Dial: func(url string) (*etcd.Client, error) { return c.First.Client(url), nil }}
	removal.After = func(step string) {
		if step != "leaving" {
			return
		}
		if m, removed, err := Read(t.Context(), client, added.ID, key); err != nil || m == nil || !m.Leaving || m.Removed.IsZero() || !removed {
			t.Errorf("when that is decided: got %+v, %t, %v", m, removed, err)
		}
		listed, err := client.Members(t.Context())
		if err = errors.Join(err, writeRecords(t.Context(), client, records(t, client), listed, added.ID, b.Record())); err != nil {
			t.Error(err)
		}
		if m := records(t, client).members[added.ID]; !m.Leaving || m.Removed.IsZero() {
			t.Errorf("its node wrote a record without that: %+v", m)
		}
	}
	if m, removed, err := Read(t.Context(), client, added.ID, key); err != nil || m == nil || m.Leaving || removed {
		t.Errorf("a member: got %+v, %t, %v", m, removed, err)
	}
	if _, err := Remove(t.Context(), client, removal); err != nil {
		t.Fatal(err)
	}
	if m, removed, err := Read(t.Context(), client, added.ID, key); err != nil || m != nil || !removed {
		t.Errorf("afterwards: got %+v, %t, %v", m, removed, err)
	}
	if _, removed, err := Read(t.Context(), client, added.ID, c.First.Record().Key); err != nil || removed {
		t.Errorf("another key: got %t, %v", removed, err)
	}
}
