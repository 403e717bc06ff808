package backup_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/cluster/backup"
	"github.com/lockstep-dev/lockstep/cluster/datadir"
	"github.com/lockstep-dev/lockstep/cluster/member"
	"github.com/lockstep-dev/lockstep/cluster/pki"
	"github.com/lockstep-dev/lockstep/cluster/record"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
)

const (
	loopback = "127.0.0.1"
	prefix   = "/p"
	limit    = time.Minute
)

var (
	keys    = keyspace.Under(prefix)
	command = []string{os.Args[0], childCommand}
)

// node is the data directory of a member.
type node struct {
	path   string
	marker datadir.Marker
}

func freePort(t *testing.T) int {
	t.Helper()
	addr, err := etcdtest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{path: filepath.Join(t.TempDir(), "data"), marker: datadir.Marker{
		Cluster: "first", Node: "a", Address: loopback, PeerPort: freePort(t), ClientPort: freePort(t), JoinPort: freePort(t),
		Intent: datadir.Create, Phase: datadir.Begun,
	}}
	n.write(t)
	if err := datadir.MakeDir(n.layout().PKI()); err != nil {
		t.Fatal(err)
	}
	ca, err := pki.EnsureCA(n.layout().PKI(), n.marker.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureCertificate(n.layout().PKI(), ca, n.marker.Node, loopback); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) layout() datadir.Layout { return datadir.Layout(n.path) }

func (n *node) write(t *testing.T) {
	t.Helper()
	dir, err := datadir.Open(n.path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := dir.WriteMarker(n.marker); err != nil {
		t.Fatal(err)
	}
}

func (n *node) read(t *testing.T) datadir.Marker {
	t.Helper()
	marker, err := n.layout().ReadMarker()
	if err != nil {
		t.Fatal(err)
	}
	return marker
}

// run runs the member while use does its work.
func (n *node) run(t *testing.T, use func(*etcd.Client, member.State)) {
	t.Helper()
	l := n.layout()
	s := member.New(member.Config{Command: command, Spec: member.Spec{
		Dir: l.Etcd(), Name: n.marker.Node, PeerURL: n.marker.PeerURL(), ClientURL: n.marker.ClientURL(),
		InitialCluster: n.marker.Node + "=" + n.marker.PeerURL(), Token: n.marker.Cluster,
		CAFile: l.CACert(), CertFile: l.NodeCert(), KeyFile: l.NodeKey(), Heartbeat: 10 * time.Millisecond, Election: 100 * time.Millisecond,
	}})
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It returns when ctx ends.
		_ = s.Run(ctx)
	}()
	defer func() { cancel(); <-done }()
	if err := s.AwaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	client, err := etcd.NewClient(etcd.Config{
		Endpoints: []string{n.marker.ClientURL()}, Prefix: prefix, CAFile: l.CACert(), CertFile: l.NodeCert(), KeyFile: l.NodeKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	use(client, s.State().Get())
}

func put(t *testing.T, c *etcd.Client, names ...string) {
	t.Helper()
	for _, key := range names {
		if _, err := c.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpPut(key, "value")}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// listing returns all keys, by name.
func listing(t *testing.T, c *etcd.Client) map[string]string {
	t.Helper()
	resp, err := c.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, kv := range resp.Kvs {
		out[string(kv.Key)] = string(kv.Value)
	}
	return out
}

func restore(t *testing.T, n *node, file string) (backup.Restored, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return backup.Restore(ctx, backup.Config{DataDir: n.path, File: file, Prefix: prefix, Command: command, Log: slog.New(slog.DiscardHandler)})
}

// A snapshot becomes a cluster of one member, with another ID and a higher revision.
// What belonged to the cluster before is deleted; the rest is as it was.
func TestRestore(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(t.TempDir(), "snapshot")
	var before member.State
	n.run(t, func(c *etcd.Client, s member.State) {
		before = s
		put(t, c, keys.Node("b"), keys.Status(), keys.Cluster(), keys.ClusterMember(1), keys.ClusterLearner(2), keys.RemovedMember(3), keys.JoinToken("x"), keys.ClusterLock())
		saved, err := backup.Save(t.Context(), c, file)
		if err != nil || saved.Keys == 0 || saved.Revision != 9 {
			t.Errorf("got %+v, %v", saved, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v", info, err)
		}
		if _, err := backup.Save(t.Context(), c, file); err == nil || !strings.Contains(err.Error(), "exists") {
			t.Errorf("a file that exists is written: %v", err)
		}
		put(t, c, keys.Node("late"))
	})
	n.marker.Phase, n.marker.MemberID, n.marker.EtcdClusterID = datadir.Member, keyspace.MemberID(before.MemberID), keyspace.MemberID(before.ClusterID)
	n.write(t)

	for restores := 1; restores <= 2; restores++ {
		restored, err := restore(t, n, file)
		if err != nil {
			t.Fatal(err)
		}
		marker := n.read(t)
		if marker.Phase != datadir.Member || marker.Intent != datadir.Restore || marker.Restores != restores || marker.Cluster == n.marker.Cluster {
			t.Errorf("got %+v", marker)
		}
		if restored.Restores != restores || restored.Cluster != marker.Cluster || restored.Revision != 9 || restored.Replaced == "" {
			t.Errorf("got %+v", restored)
		}
		n.marker = marker
	}
	n.run(t, func(c *etcd.Client, s member.State) {
		if s.ClusterID == before.ClusterID || s.MemberID == before.MemberID || keyspace.MemberID(s.MemberID) != n.marker.MemberID {
			t.Errorf("before %+v, now %+v, marker %+v", before, s, n.marker)
		}
		got := listing(t, c)
		cluster, err := record.DecodeCluster([]byte(got[keys.Cluster()]))
		if err != nil || cluster.ID != n.marker.Cluster || cluster.EtcdClusterID != s.ClusterID {
			t.Errorf("got %+v, %v", cluster, err)
		}
		self, err := record.DecodeMember(keys.ClusterMember(s.MemberID), []byte(got[keys.ClusterMember(s.MemberID)]))
		if err != nil || self.Node != "a" || self.ClientURL != n.marker.ClientURL() {
			t.Errorf("got %+v, %v", self, err)
		}
		// The status is rebuilt from the objects, which are newer.
		if _, old := got[keys.Status()]; len(got) != 3 || got[keys.Node("b")] != "value" || old {
			t.Errorf("got %v", got)
		}
		if revision := c.Contact().Get().Revision; revision < 1_000_000_000 {
			t.Errorf("got the revision %d", revision)
		}
		// A watch from a revision of before does not wait for ever.
		if _, err := c.Get(t.Context(), keys.Status(), clientv3.WithRev(12)); err == nil || !strings.Contains(err.Error(), "compacted") {
			t.Errorf("an old revision: got %v", err)
		}
	})
}

// A restoration that was interrupted is completed by the next one. What was there
// before the first one is kept.
func TestRestore_interrupted(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(t.TempDir(), "snapshot")
	n.run(t, func(c *etcd.Client, _ member.State) {
		put(t, c, keys.Node("b"), keys.Cluster())
		if _, err := backup.Save(t.Context(), c, file); err != nil {
			t.Error(err)
		}
	})
	old := n.layout().Etcd() + ".replaced"
	n.marker.Cluster, n.marker.Intent, n.marker.Restores = "second", datadir.Restore, 1
	n.write(t)
	if err := os.Rename(n.layout().Etcd(), old); err != nil {
		t.Fatal(err)
	}
	for _, half := range []string{n.layout().Etcd(), n.layout().Etcd() + ".restoring"} {
		if err := os.MkdirAll(filepath.Join(half, "member"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	restored, err := restore(t, n, file)
	if err != nil || restored.Restores != 1 || restored.Cluster != "second" || restored.Replaced != old {
		t.Fatalf("got %+v, %v", restored, err)
	}
	if !datadir.Layout(filepath.Dir(old)).EtcdBegun() {
		t.Error("etcd has no data")
	}
	if _, err := os.Stat(filepath.Join(old, "member", "wal")); err != nil {
		t.Errorf("what was there before: %v", err)
	}
	n.marker = n.read(t)
	n.run(t, func(c *etcd.Client, _ member.State) {
		if got := listing(t, c); got[keys.Node("b")] != "value" {
			t.Errorf("got %v", got)
		}
	})
}

// A snapshot without a cluster below the prefix is of another cluster, or the prefix is
// mistyped. The right prefix completes what has begun.
func TestRestore_otherPrefix(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(t.TempDir(), "snapshot")
	n.run(t, func(c *etcd.Client, _ member.State) {
		put(t, c, keys.Cluster())
		if _, err := backup.Save(t.Context(), c, file); err != nil {
			t.Error(err)
		}
	})
	cfg := backup.Config{DataDir: n.path, File: file, Prefix: "/q", Command: command, Log: slog.New(slog.DiscardHandler)}
	if _, err := backup.Restore(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "no cluster below the prefix /q/") {
		t.Errorf("got %v", err)
	}
	if restored, err := restore(t, n, file); err != nil || restored.Restores != 1 {
		t.Errorf("got %+v, %v", restored, err)
	}
}

// A file that is damaged, a directory that is in use or of no member: nothing changes.
func TestRestore_refuses(t *testing.T) {
	n := newNode(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "snapshot")
	n.run(t, func(c *etcd.Client, _ member.State) {
		if _, err := backup.Save(t.Context(), c, file); err != nil {
			t.Error(err)
		}
	})
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged := append([]byte{}, whole...)
	damaged[len(damaged)/2] ^= 1
	for name, text := range map[string][]byte{"cut off": whole[:len(whole)/2], "damaged": damaged, "empty": {}, "text": []byte("no snapshot")} {
		broken := filepath.Join(dir, "broken")
		if err := os.WriteFile(broken, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := restore(t, n, broken); err == nil {
			t.Errorf("%s: it was restored", name)
		}
	}
	if _, err := restore(t, n, filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing file was restored")
	}
	if _, err := os.Stat(filepath.Join(dir, "missing")); err == nil {
		t.Error("the missing file was created")
	}
	locked, err := datadir.Open(n.path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := restore(t, n, file); err == nil {
		t.Error("a directory in use was restored")
	}
	if err := locked.Close(); err != nil {
		t.Error(err)
	}
	fresh := filepath.Join(dir, "new")
	if _, err := restore(t, &node{path: fresh}, file); err == nil || !strings.Contains(err.Error(), "was a member") || !strings.Contains(err.Error(), fresh) {
		t.Errorf("a new directory: got %v", err)
	}
	if _, err := os.Stat(fresh); err == nil {
		t.Error("the new directory was made")
	}
	if got := n.read(t); got.Cluster != n.marker.Cluster || got.Restores != 0 || got.Intent != datadir.Create {
		t.Errorf("got %+v", got)
	}
}
