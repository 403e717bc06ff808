package enrol

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
	"github.com/lockstep-dev/lockstep/test/members"
)

// rig is a cluster of one member that answers joins.
type rig struct {
	t       *testing.T
	cluster *members.Cluster
	client  *etcd.Client
	url     string
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, cluster: members.New(t)}
	r.client = r.cluster.First.Client()
	r.url = r.serve(change)
	return r
}

// serve starts a server of the first member, and returns its URL.
func (r *rig) serve(change func(*Config)) string {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := Config{
		Client: r.client, PKI: r.cluster.First.Dir, Log: slog.New(slog.DiscardHandler),
		Limits: Limits{PerAddress: 1e6, InAll: 1e6, Burst: 1e6},
	}
	if change != nil {
		change(&cfg)
	}
	server := NewServer(cfg)
	ctx, cancel := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx, l) }) // its error is that ctx ended
	r.t.Cleanup(func() { cancel(); running.Wait() })
	return "https://" + l.Addr().String()
}

func (r *rig) token(uses int, ttl time.Duration) token.Token {
	r.t.Helper()
	tok, _, err := token.Create(r.t.Context(), r.client, token.Spec{CA: r.cluster.CA.Hash(), TTL: ttl, Uses: uses})
	if err != nil {
		r.t.Fatal(err)
	}
	return tok
}

// request returns the request of a new node.
func (r *rig) request(name string, tok token.Token) Request {
	r.t.Helper()
	n := r.cluster.Node(name)
	return Request{
		URL: r.url, Token: tok, Node: name, Address: "127.0.0.1",
		PeerPort: members.Port(n.PeerURL), ClientPort: members.Port(n.ClientURL), JoinPort: members.Port(n.JoinURL),
		Key: newKey(r.t),
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
