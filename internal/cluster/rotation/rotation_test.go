package rotation

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/test/members"
)

const (
	clusterID = "11111111-1111-4111-8111-111111111111"
	address   = "127.0.0.1"
)

var keys = keyspace.Under(members.Prefix)

// killed is the panic of a sidecar that is killed.
type killed struct{}

// town is the nodes of a cluster: a and b vote, w runs no member.
type town struct {
	t      *testing.T
	client *etcd.Client
	nodes  []*inhabitant
	kills  map[string]bool // the moments at which a sidecar was killed; nil: none is
}

// inhabitant is a node with a sidecar that takes part in the rotation.
type inhabitant struct {
	town    *town
	name    protocol.NodeID
	dir     string
	adopted pki.Hash
	worker  *Worker
}

// newTown returns nodes with certificates of a CA that is to be replaced. Each holds the key of
// that CA: w was a voter.
func newTown(t *testing.T, client *etcd.Client, kills map[string]bool) *town {
	t.Helper()
	w := &town{t: t, client: client, kills: kills}
	ca, err := pki.EnsureCA(t.TempDir(), clusterID)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []protocol.NodeID{"a", "b", "w"} {
		n := &inhabitant{town: w, name: name, dir: t.TempDir(), adopted: ca.Hash()}
		err := pki.WriteCA(n.dir, ca)
		if err == nil {
			_, err = pki.EnsureCertificate(n.dir, ca, string(name), address)
		}
		if err != nil {
			t.Fatal(err)
		}
		n.start()
		w.nodes = append(w.nodes, n)
	}
	w.put(clientv3.OpDelete(keys.Rotation()), clientv3.OpDelete(keys.RotationReports(), clientv3.WithPrefix()))
	return w
}

func (w *town) put(ops ...clientv3.Op) {
	w.t.Helper()
	if _, err := w.client.Txn(w.t.Context(), nil, ops, nil); err != nil {
		w.t.Fatal(err)
	}
}

// start starts the sidecar of a node, and with it its processes.
func (n *inhabitant) start() {
	n.worker = New(Config{
		Client: n.town.client, PKI: n.dir, Node: n.name, ClusterID: clusterID, Self: n,
		Publish: func(State) {}, Log: slog.New(slog.DiscardHandler), After: n.pass,
	})
	if err := n.worker.begin(); err != nil {
		n.town.t.Errorf("%s does not start: %v", n.name, err)
	}
}

// pass kills the sidecar after each step, once in each phase.
func (n *inhabitant) pass(done string) {
	moment := n.worker.state.Phase + "/" + string(n.name) + "/" + done
	if n.town.kills == nil || n.town.kills[moment] {
		return
	}
	n.town.kills[moment] = true
	panic(killed{})
}

// errNoOther is returned until the node that created the key trusts its CA.
var errNoOther = errors.New("no other node has the key")

func (n *inhabitant) Restart(context.Context) error { return nil }

func (n *inhabitant) Adopt(_ context.Context, ca pki.Hash) error {
	n.adopted = ca
	return nil
}

func (n *inhabitant) FetchKey(_ context.Context, ca pki.Hash) ([]byte, error) {
	for _, other := range n.town.nodes {
		if keyed, err := pki.LoadTrusted(other.dir, ca); err == nil && other != n {
			return keyed.KeyPEM(), nil
		}
	}
	return nil, errNoOther
}

// Renew signs with its own key, or asks another node to sign with the key of the same CA.
func (n *inhabitant) Renew(context.Context) error {
	if _, err := pki.Renew(n.dir, string(n.name), address, time.Now()); !errors.Is(err, pki.ErrNoKey) {
		return err
	}
	signs, err := pki.ReadAuthority(n.dir)
	if err != nil {
		return err
	}
	ca, err := pki.LoadTrusted(n.town.nodes[0].dir, pki.HashOf(signs))
	if err != nil {
		return err
	}
	cert, err := pki.ReadCertificate(n.dir)
	if err != nil {
		return err
	}
	text, err := ca.IssueAgain(cert)
	if err == nil {
		_, err = pki.WriteCertificate(n.dir, text)
	}
	return err
}

// round lets a sidecar take the next step. One that is killed is started again.
func (n *inhabitant) round() {
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(killed); !is {
				panic(r)
			}
			n.start()
		}
	}()
	if err := n.worker.round(n.town.t.Context()); err != nil && !errors.Is(err, errNoOther) {
		n.town.t.Errorf("%s: %v", n.name, err)
	}
}

// check requires that each node trusts the certificate of each other one, and that a voter can sign.
func (w *town) check() {
	w.t.Helper()
	for _, uses := range w.nodes {
		cert, err := pki.ReadCertificate(uses.dir)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, n := range w.nodes {
			trusted, err := pki.ReadTrusted(n.dir)
			if err != nil {
				w.t.Fatal(err)
			}
			issuer, err := pki.IssuerOf(cert, trusted)
			if err == nil {
				err = pki.Verify(cert, issuer, address, time.Now())
			}
			if err != nil {
				w.t.Errorf("%s does not trust what %s uses: %v", n.name, uses.name, err)
			} else if !slices.Contains(n.worker.trusts, pki.HashOf(issuer)) {
				w.t.Errorf("the processes of %s do not trust what %s uses", n.name, uses.name)
			}
		}
	}
	if _, err := pki.LoadCA(w.nodes[0].dir); err != nil {
		w.t.Errorf("a cannot sign: %v", err)
	}
}

func (w *town) record() record.Rotation {
	w.t.Helper()
	r, err := quorum.ReadRotation(w.t.Context(), w.client)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// checkKeys requires that the record names each node that holds the new key, in case that it is removed,
// and that no node signs with it before all trust it.
func (w *town) checkKeys(before pki.Hash, r record.Rotation) {
	w.t.Helper()
	if r.Phase != membership.RotationTrusting {
		return
	}
	next, err := pki.ParseAuthority([]byte(r.Certificate))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, n := range w.nodes {
		text, err := os.ReadFile(filepath.Join(n.dir, pki.NextKeyFile))
		if err == nil {
			_, err = pki.NewKeyed(next, text)
		}
		if err == nil && !slices.Contains(r.Given, n.name) {
			w.t.Errorf("%s has the new key, and the record names %v", n.name, r.Given)
		}
		if signs, err := pki.ReadAuthority(n.dir); err != nil || pki.HashOf(signs) != before {
			w.t.Errorf("%s signs with the new CA (%v), and not all nodes trust it yet", n.name, err)
		}
	}
}

// ended requires that only the new CA is left everywhere.
func (w *town) ended(before pki.Hash, now record.Rotation) {
	w.t.Helper()
	next := pki.Hash(now.Hash)
	if next == before {
		w.t.Error("the CA was not replaced")
	}
	for _, n := range w.nodes {
		trusted, err := pki.ReadTrusted(n.dir)
		if err != nil || len(trusted) != 1 || pki.HashOf(trusted[0]) != next || n.adopted != next || len(n.worker.trusts) != 1 {
			w.t.Errorf("%s trusts %v (%v), has adopted %s, want %s alone", n.name, hashes(trusted), err, n.adopted, next)
		}
		if _, err := pki.LoadCA(n.dir); (err == nil) != (n.name != "w") {
			w.t.Errorf("the key of %s: %v", n.name, err)
		}
		for _, file := range []string{pki.NextKeyFile, pki.CAKeyFile} {
			if _, err := os.Stat(filepath.Join(n.dir, file)); err == nil && (file == pki.NextKeyFile || n.name == "w") {
				w.t.Errorf("%s has a key of another CA in %s", n.name, file)
			}
		}
	}
	if left, err := token.List(w.t.Context(), w.client); err != nil || len(left) != 0 { // a removed node may have made one
		w.t.Errorf("join tokens are left: %v, %v", left, err)
	}
	c, err := quorum.ReadCluster(w.t.Context(), w.client)
	if err != nil || pki.Hash(c.CA) != next {
		w.t.Errorf("the record of the cluster has %v, %v", c, err)
	}
}

// rotate replaces the CA.
func (w *town) rotate() {
	w.t.Helper()
	before := w.nodes[0].adopted
	if _, _, err := token.Create(w.t.Context(), w.client, token.Spec{CA: before, TTL: time.Hour, Uses: 1}); err != nil {
		w.t.Fatal(err)
	}
	if already, err := quorum.StartRotation(w.t.Context(), w.client); err != nil || already {
		w.t.Fatalf("got %t, %v", already, err)
	}
	const rounds = 100 // more than it needs
	for range rounds {
		for _, n := range w.nodes {
			n.round()
			w.check()
			w.checkKeys(before, w.record())
		}
		now := w.record()
		if !now.Active() {
			w.ended(before, now)
			return
		}
	}
	w.t.Fatal("the replacement does not end")
}

// twoVoters returns a client of a cluster of the voters a and b, and registers all nodes.
func twoVoters(t *testing.T) *etcd.Client {
	t.Helper()
	c := members.New(t)
	client, b := c.First.Client(), c.Node("b")
	added, err := quorum.Add(t.Context(), client, quorum.Addition{Node: b.Record()})
	if err != nil {
		t.Fatal(err)
	}
	b.StartJoined(added.Members)
	for err := client.PromoteMember(t.Context(), added.ID); err != nil; err = client.PromoteMember(t.Context(), added.ID) {
		select { // etcd refuses it until the learner caught up with the log
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	for _, n := range []protocol.NodeID{"a", "b", "w"} {
		ops := []clientv3.Op{clientv3.OpPut(keys.Node(n), ""), clientv3.OpPut(keys.Presence(n), "")}
		if _, err := client.Txn(t.Context(), nil, ops, nil); err != nil {
			t.Fatal(err)
		}
	}
	return client
}

// The CA is replaced, and a sidecar is killed after each step of each node. All the time, each node
// trusts the certificates of the others; at the end, no node keeps anything of the old CA.
func TestRotation_killedAnywhere(t *testing.T) {
	client := twoVoters(t)
	newTown(t, client, nil).rotate()
	kills := map[string]bool{}
	newTown(t, client, kills).rotate()
	moments := slices.Sorted(maps.Keys(kills))
	if t.Logf("%d moments: %s", len(moments), moments); len(moments) < 20 {
		t.Errorf("got %d moments, want one for each step of each node", len(moments))
	}
}
