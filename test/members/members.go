// Package members runs etcd clusters of several members in one process, with the CA and
// the records that the sidecars would have made: for tests of code that changes the members.
// Each member uses its own ports on 127.0.0.1.
package members

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// Prefix is the prefix of the keys.
const Prefix = "/lockstep/"

// attemptTimeout is longer than an election takes, or a write to a busy disk; requestTimeout is two attempts.
const attemptTimeout, requestTimeout = 5 * time.Second, 10 * time.Second

// Cluster is a cluster whose first member runs.
type Cluster struct {
	t     testing.TB
	CA    *pki.CA
	ID    string
	First *Node
}

// Node is one node: its directory, its URLs, and its member once that runs.
type Node struct {
	cluster *Cluster
	Name    string
	Dir     string

	PeerURL, ClientURL, JoinURL string

	Member *etcdtest.Member // nil: it does not run
}

// New starts a cluster of one node, "a", and writes its records.
func New(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t, ID: "11111111-1111-4111-8111-111111111111"}
	var err error
	if c.CA, err = pki.NewCA(c.ID); err != nil {
		t.Fatal(err)
	}
	c.First = c.Node("a")
	c.First.Start("a="+c.First.PeerURL, false)
	c.First.AwaitReady()
	keys := keyspace.Under(Prefix)
	client := c.First.Client()
	now := time.Now().UTC()
	rec := record.Cluster{ID: c.ID, EtcdClusterID: c.First.Member.ClusterID(), CA: c.CA.Hash(), Created: now}
	member := c.First.Record()
	if _, err := client.Txn(t.Context(), nil, []clientv3.Op{
		clientv3.OpPut(keys.Cluster(), string(record.EncodeCluster(rec))),
		clientv3.OpPut(keys.ClusterMember(c.First.Member.ID()), string(record.EncodeMember(member))),
	}, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// Node returns a node with a key and a certificate that is no member yet.
func (c *Cluster) Node(name string) *Node {
	c.t.Helper()
	n := &Node{cluster: c, Name: name, Dir: c.t.TempDir()}
	urls := []*string{&n.PeerURL, &n.ClientURL, &n.JoinURL}
	for _, u := range urls {
		addr, err := etcdtest.FreeAddr()
		if err != nil {
			c.t.Fatal(err)
		}
		*u = "https://" + addr
	}
	if err := pki.WriteCA(n.Dir, c.CA); err != nil {
		c.t.Fatal(err)
	}
	if _, err := pki.EnsureCertificate(n.Dir, c.CA, name, "127.0.0.1"); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// Port returns the port of one of the node's URLs.
func Port(text string) int {
	u, err := url.Parse(text)
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return 0
	}
	return port
}

// Record returns the node's record, without its member ID.
func (n *Node) Record() record.Member {
	n.cluster.t.Helper()
	cert, err := pki.ReadCertificate(n.Dir)
	if err != nil {
		n.cluster.t.Fatal(err)
	}
	return record.Member{
		Node: protocol.NodeID(n.Name), Address: "127.0.0.1", Added: time.Now().UTC(),
		PeerURL: n.PeerURL, ClientURL: n.ClientURL, JoinURL: n.JoinURL, Key: pki.HashOf(cert),
	}
}

// Start starts the node's member. It stops when the test ends.
func (n *Node) Start(initialCluster string, existing bool) {
	n.cluster.t.Helper()
	if err := n.tryStart(initialCluster, existing); err != nil {
		n.cluster.t.Fatal(err)
	}
	n.cluster.t.Cleanup(n.Stop)
}

func (n *Node) tryStart(initialCluster string, existing bool) error {
	pkiFile := func(name string) string { return filepath.Join(n.Dir, name) }
	m, err := etcdtest.StartMember(etcdtest.MemberConfig{
		Dir: filepath.Join(n.Dir, "etcd"), Name: n.Name, PeerURL: n.PeerURL, ClientURL: n.ClientURL,
		InitialCluster: initialCluster, Existing: existing, Token: n.cluster.ID,
		CAFile: pkiFile(pki.CACertFile), CertFile: pkiFile(pki.NodeCertFile), KeyFile: pkiFile(pki.NodeKeyFile),
	})
	if err != nil {
		return err
	}
	n.Member = m
	return nil
}

// StartJoined starts the member of a node that was added. etcd refuses to begin while the
// member that it asks does not know of the addition yet: then it is started again, as a
// sidecar does.
func (n *Node) StartJoined(all []etcd.Member) {
	n.cluster.t.Helper()
	cluster.Await(n.cluster.t, "etcd member "+n.Name+" to begin", func(context.Context) error {
		err := n.tryStart(InitialCluster(all, n.Name, n.PeerURL), true)
		if err != nil {
			return errors.Join(err, os.RemoveAll(filepath.Join(n.Dir, "etcd")))
		}
		return nil
	})
	n.cluster.t.Cleanup(n.Stop)
}

// InitialCluster returns the members in the form that etcd reads. A member without a name
// gets its ID.
func InitialCluster(all []etcd.Member, name, peerURL string) string {
	var out []string
	for _, m := range all {
		switch {
		case m.PeerURLs[0] == peerURL:
			out = append(out, name+"="+peerURL)
		case m.Name == "":
			out = append(out, fmt.Sprintf("%x=%s", m.ID, m.PeerURLs[0]))
		default:
			out = append(out, m.Name+"="+m.PeerURLs[0])
		}
	}
	return strings.Join(out, ",")
}

// AwaitReady waits until the member is part of a quorum.
func (n *Node) AwaitReady() {
	n.cluster.t.Helper()
	if err := n.Member.AwaitReady(n.cluster.t.Context()); err != nil {
		n.cluster.t.Fatal(err)
	}
}

// Stop ends the member, if it runs.
func (n *Node) Stop() {
	if n.Member != nil {
		n.Member.Stop()
		n.Member = nil
	}
}

// Client returns a client with the node's certificate that reaches some members, by
// default its own.
func (n *Node) Client(clientURLs ...string) *etcd.Client {
	n.cluster.t.Helper()
	if len(clientURLs) == 0 {
		clientURLs = []string{n.ClientURL}
	}
	client, err := etcd.NewClient(etcd.Config{
		Endpoints: clientURLs, Prefix: Prefix, AttemptTimeout: attemptTimeout, RequestTimeout: requestTimeout,
		CAFile:   filepath.Join(n.Dir, pki.CACertFile),
		CertFile: filepath.Join(n.Dir, pki.NodeCertFile), KeyFile: filepath.Join(n.Dir, pki.NodeKeyFile),
	})
	if err != nil {
		n.cluster.t.Fatal(err)
	}
	n.cluster.t.Cleanup(func() { client.Close() })
	return client
}

// Certificate returns a new certificate of an issuer for a node at an address, with the
// certificates of authorities beside it.
func Certificate(t testing.TB, issuer *pki.CA, node, address string, chain ...*pki.CA) tls.Certificate {
	t.Helper()
	dir := t.TempDir()
	cert, err := pki.EnsureCertificate(dir, issuer, node, address)
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.EnsureKeyPair(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
	for _, ca := range chain {
		out.Certificate = append(out.Certificate, ca.Certificate().Raw)
	}
	return out
}
