package token

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

func newClient(t *testing.T) (*etcd.Client, *etcdtest.Server) {
	t.Helper()
	server := etcdtest.New(t)
	client, err := etcd.NewClient(etcd.Config{Endpoints: server.Endpoints(), Prefix: "/lockstep"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client, server
}

func create(t *testing.T, client *etcd.Client, ttl time.Duration, uses int) (Token, Stored) {
	t.Helper()
	tok, stored, err := Create(t.Context(), client, Spec{CA: pki.Hash{1}, TTL: ttl, Uses: uses})
	if err != nil {
		t.Fatal(err)
	}
	return tok, stored
}

func claim(tok Token, node string, key byte) Claim {
	return Claim{ID: tok.ID, Secret: tok.Secret, Node: protocol.NodeID(node), Key: pki.Hash{key}, Now: time.Now()}
}

func TestConsume(t *testing.T) {
	client, server := newClient(t)
	tok, stored := create(t, client, time.Hour, 2)
	want := func(what string, c Claim, want error) {
		t.Helper()
		checked := Check(t.Context(), client, c)
		got := Consume(t.Context(), client, c)
		if !errors.Is(got, want) || !errors.Is(checked, want) {
			t.Errorf("%s: got %v, and checked before %v, want %v", what, got, checked, want)
		}
	}
	late := func(c Claim) Claim {
		c.Now = stored.Expires
		return c
	}
	wrongSecret := claim(tok, "b", 1)
	wrongSecret.Secret[0] ^= 1
	want("another secret", wrongSecret, ErrSecret)
	want("another ID", Claim{ID: "zzzzzz", Secret: tok.Secret, Node: "b", Now: time.Now()}, ErrUnknown)
	want("too late", late(claim(tok, "b", 1)), ErrExpired)
	want("the first node", claim(tok, "b", 1), nil)
	want("the first node again", claim(tok, "b", 1), nil)
	want("the first node, after the token has expired", late(claim(tok, "b", 1)), nil)
	want("another key of the first node", claim(tok, "b", 2), ErrOtherKey)
	want("another key of the first node, after the token has expired", late(claim(tok, "b", 2)), ErrExpired)
	want("the second node", claim(tok, "c", 3), nil)
	want("a third node", claim(tok, "d", 4), ErrUsed)
	want("the key of another node", claim(tok, "d", 1), ErrUsed)
	want("the second node again", claim(tok, "c", 3), nil)

	if err := Revoke(t.Context(), client, tok.ID); err != nil {
		t.Fatal(err)
	}
	want("the first node, after the token was revoked", claim(tok, "b", 1), ErrRevoked)
	want("another secret, after the token was revoked", wrongSecret, ErrSecret)
	if err := Revoke(t.Context(), client, tok.ID); err != nil {
		t.Errorf("revoked again: %v", err)
	}
	if err := Revoke(t.Context(), client, "zzzzzz"); !errors.Is(err, ErrUnknown) {
		t.Errorf("revoke an unknown token: got %v", err)
	}
	if _, err := server.Client(t).Put(t.Context(), keyspace.Under("/lockstep").JoinToken(tok.ID), "\xff"); err != nil {
		t.Fatal(err)
	}
	want("corrupt", claim(tok, "b", 1), ErrUnknown)
}

// TestConsume_lastUse: of many nodes that use a token at the same moment, exactly as
// many may as the token allows.
func TestConsume_lastUse(t *testing.T) {
	client, _ := newClient(t)
	tok, _ := create(t, client, time.Hour, 3)
	const nodes = 12
	results := make([]error, nodes)
	var all sync.WaitGroup
	for i := range nodes {
		all.Go(func() { results[i] = Consume(t.Context(), client, claim(tok, fmt.Sprintf("n%d", i), byte(i))) })
	}
	all.Wait()
	joined := 0
	for i, err := range results {
		switch {
		case err == nil:
			joined++
		case !errors.Is(err, ErrUsed):
			t.Errorf("node %d: got %v, want ErrUsed", i, err)
		}
	}
	list, err := List(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if joined != 3 || len(list) != 1 || len(list[0].UsedBy) != 3 || list[0].State(time.Now()) != Used {
		t.Errorf("%d nodes used the token, want 3: %+v", joined, list)
	}
}

func TestCreate(t *testing.T) {
	client, server := newClient(t)
	tok, stored := create(t, client, time.Hour, 1)
	if got := stored.Expires.Sub(stored.Created); got != time.Hour || stored.State(time.Now()) != Valid {
		t.Errorf("it lives for %s: %+v", got, stored)
	}
	key := keyspace.Under("/lockstep").JoinToken(tok.ID)
	resp, err := server.Client(t).Get(t.Context(), key)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("got %v, %v", resp, err)
	}
	if value := string(resp.Kvs[0].Value); contains(value, tok.Secret[:]) || contains(value, []byte(tok.Text())) {
		t.Error("etcd has the secret")
	}
	for name, spec := range map[string]Spec{
		"no lifetime": {Uses: 1}, "too long": {TTL: MaxTTL + 1, Uses: 1},
		"no uses": {TTL: time.Hour}, "too many uses": {TTL: time.Hour, Uses: MaxUses + 1},
	} {
		if _, _, err := Create(t.Context(), client, spec); err == nil {
			t.Errorf("%s: it was created", name)
		}
	}
	// A token that expired long ago is deleted, and nothing else.
	old := Stored{ID: "aaaaaa", Created: stored.Created.Add(-72 * time.Hour), Expires: stored.Created.Add(-keep - time.Second), Uses: 1}
	recent := Stored{ID: "bbbbbb", Created: stored.Created.Add(-48 * time.Hour), Expires: stored.Created.Add(-keep + time.Hour), Uses: 1}
	for _, s := range []Stored{old, recent} {
		if _, err := server.Client(t).Put(t.Context(), keyspace.Under("/lockstep").JoinToken(s.ID), string(encode(s))); err != nil {
			t.Fatal(err)
		}
	}
	newest, _ := create(t, client, time.Hour, 1)
	list, err := List(t.Context(), client)
	if err != nil || len(list) != 3 || list[0].ID != "bbbbbb" {
		t.Fatalf("got %+v, %v, want bbbbbb, %s and %s", list, err, tok.ID, newest.ID)
	}
	if got := list[0].State(time.Now()); got != Expired {
		t.Errorf("got %s, want expired", got)
	}
}

func contains(text string, part []byte) bool { return strings.Contains(text, string(part)) }

// TestConsume_noEtcd: that etcd does not answer is no statement about the token.
func TestConsume_noEtcd(t *testing.T) {
	client, server := newClient(t)
	tok, _ := create(t, client, time.Hour, 1)
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := Consume(ctx, client, claim(tok, "b", 1))
	for _, e := range []error{ErrUnknown, ErrSecret, ErrRevoked, ErrExpired, ErrUsed, ErrOtherKey, nil} {
		if errors.Is(err, e) {
			t.Errorf("got %v", err)
		}
	}
}

// TestConsume_bound: a token for a node is refused for all others, and costs no use then.
func TestConsume_bound(t *testing.T) {
	client, server := newClient(t)
	tok, _, err := Create(t.Context(), client, Spec{CA: pki.Hash{1}, TTL: time.Hour, Uses: 1, Node: "b", Address: "10.0.0.2"})
	if err != nil {
		t.Fatal(err)
	}
	at := func(c Claim, address string) Claim {
		c.Address = address
		return c
	}
	for _, tt := range []struct {
		what  string
		claim Claim
		want  error
		text  string
	}{
		{"another node", at(claim(tok, "evil", 1), "10.0.0.2"), ErrOtherNode, `it is for node "b", and this node is "evil"`},
		{"another address", at(claim(tok, "b", 1), "10.0.0.3"), ErrOtherNode, `it is for node "b" at 10.0.0.2, and this node is at 10.0.0.3`},
		{"the node", at(claim(tok, "b", 2), "10.0.0.2"), nil, ""},
		{"the node again", at(claim(tok, "b", 2), "10.0.0.2"), nil, ""},
		{"another node with the same key", at(claim(tok, "evil", 2), "10.0.0.2"), ErrOtherNode, "evil"},
	} {
		err := Consume(t.Context(), client, tt.claim)
		if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %v, want %v with %q", tt.what, err, tt.want, tt.text)
		}
	}
	all, err := List(t.Context(), client)
	if err != nil || len(all) != 1 || all[0].Node != "b" || all[0].Address != "10.0.0.2" || len(all[0].UsedBy) != 1 {
		t.Errorf("got %+v, %v", all, err)
	}
	// Older sidecars do not know the binding: they need the hash of the secret where it was,
	// and refuse a token without one.
	resp, err := server.Client(t).Get(t.Context(), keyspace.Under("/lockstep").JoinToken(tok.ID))
	if err != nil {
		t.Fatal(err)
	}
	var stored lockstepv1.JoinToken
	if err := proto.Unmarshal(resp.Kvs[0].Value, &stored); err != nil || len(stored.GetSecretHash()) != 0 {
		t.Errorf("got %v, %v, want no hash that an older sidecar would accept", &stored, err)
	}
}
