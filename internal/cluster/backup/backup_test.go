package backup_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/role"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
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
	n.runWith(t, 0, use)
}

// runWith is run with a quota of the database.
func (n *node) runWith(t *testing.T, quota int64, use func(*etcd.Client, member.State)) {
	t.Helper()
	l := n.layout()
	s := member.New(member.Config{Command: command, Spec: member.Spec{
		Dir: l.Etcd(), Name: n.marker.Node, PeerURL: n.marker.PeerURL(), ClientURL: n.marker.ClientURL(),
		InitialCluster: n.marker.Node + "=" + n.marker.PeerURL(), Token: n.marker.Cluster,
		CAFile: l.CACert(), CertFile: l.NodeCert(), KeyFile: l.NodeKey(), Heartbeat: 10 * time.Millisecond, Election: 100 * time.Millisecond,
		QuotaBytes: quota,
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

// snapshot runs the member, writes keys, and returns the file of a snapshot of them.
func (n *node) snapshot(t *testing.T, names ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "snapshot")
	n.run(t, func(c *etcd.Client, _ member.State) {
		put(t, c, names...)
		if _, err := backup.Save(t.Context(), c, file); err != nil {
			t.Error(err)
		}
	})
	return file
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
	return backup.Restore(ctx, backup.Config{DataDir: n.path, File: file, Prefix: prefix, Command: command, GiveRole: role.GiveConsensus, Log: slog.New(slog.DiscardHandler)})
}

// A snapshot becomes a cluster of one member, with another ID and a higher revision.
// The keys of the cluster before are deleted; the rest is as it was.
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

	var first int64
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
		if restores == 1 {
			n.run(t, func(c *etcd.Client, _ member.State) {
				put(t, c, keys.Node("later"))
				first = c.Contact().Get().Revision
			})
		}
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
		if revision := c.Contact().Get().Revision; revision <= first {
			t.Errorf("got the revision %d, and after the first restoration %d", revision, first)
		}
		// A watch from a revision of before does not wait for ever.
		if _, err := c.Get(t.Context(), keys.Status(), clientv3.WithRev(12)); err == nil || !strings.Contains(err.Error(), "compacted") {
			t.Errorf("an old revision: got %v", err)
		}
	})
}

// The clock is set back after a restoration. The next restored store still begins above the revisions of the last one,
// by the marker or, after a restoration by an older program, by the data.
func TestRestore_clockWentBack(t *testing.T) {
	n := newNode(t)
	file := n.snapshot(t, keys.Cluster())
	last := time.Since(time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)).Milliseconds() * 20 // as by a clock that was years ahead
	for _, known := range []string{"the marker", "the data"} {
		n.marker = n.read(t)
		n.marker.Revision = map[string]int64{"the marker": last}[known]
		n.write(t)
		if _, err := restore(t, n, file); err != nil {
			t.Fatal(err)
		}
		n.marker = n.read(t)
		n.run(t, func(c *etcd.Client, _ member.State) {
			put(t, c, keys.Node("b"))
			now := c.Contact().Get().Revision
			if now <= last || n.marker.Revision <= last || n.marker.Revision > now {
				t.Errorf("by %s: got the revision %d, and in the marker %d, want more than %d", known, now, n.marker.Revision, last)
			}
			last = now
		})
	}
}

// A snapshot of an etcd whose database is full contains the alarm. The restored one accepts writes,
// with the same quota as before.
func TestRestore_full(t *testing.T) {
	const quota = 2 << 20
	n := newNode(t)
	file := filepath.Join(t.TempDir(), "snapshot")
	n.runWith(t, quota, func(c *etcd.Client, _ member.State) {
		put(t, c, keys.Cluster(), keys.Node("b"))
		for value := strings.Repeat("x", 256<<10); ; {
			_, err := c.Write(t.Context(), nil, clientv3.OpPut("/other", value))
			if etcd.IsNoSpace(err) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := backup.Save(t.Context(), c, file); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := restore(t, n, file); err != nil {
		t.Fatal(err)
	}
	n.marker = n.read(t)
	n.runWith(t, quota, func(c *etcd.Client, _ member.State) {
		if c.Full(t.Context()) {
			t.Error("the alarm is still there")
		}
		put(t, c, keys.Node("c"))
		if got := listing(t, c); got[keys.Node("b")] == "" {
			t.Errorf("got %v", got)
		}
	})
}

// A node whose address is lost keeps everything until it is restored with an address of the machine.
func TestRestore_otherAddress(t *testing.T) {
	n := newNode(t)
	file := n.snapshot(t, keys.Cluster(), keys.Node("b"))
	n.marker.Address = "198.51.100.1" // of documentation
	n.write(t)
	before := n.read(t)
	cfg := backup.Config{DataDir: n.path, File: file, Prefix: prefix, Command: command, GiveRole: role.GiveConsensus, Log: slog.New(slog.DiscardHandler)}
	for _, address := range []string{"", "198.51.100.2", "0.0.0.0", "x"} {
		cfg.Address = address
		if _, err := backup.Restore(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "--node-address") {
			t.Errorf("%q: got %v", address, err)
		}
	}
	if got := n.read(t); got != before || !n.layout().EtcdBegun() {
		t.Errorf("got %+v, before %+v", got, before)
	}
	cfg.Address = "127.0.0.2"
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if _, err := backup.Restore(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	if n.marker = n.read(t); n.marker.Address != cfg.Address || n.marker.Phase != datadir.Member {
		t.Errorf("got %+v", n.marker)
	}
	n.run(t, func(c *etcd.Client, s member.State) {
		got := listing(t, c)
		self, err := record.DecodeMember(keys.ClusterMember(s.MemberID), []byte(got[keys.ClusterMember(s.MemberID)]))
		if err != nil || self.Address != cfg.Address || got[keys.Node("b")] != "value" {
			t.Errorf("got %+v, %v", self, err)
		}
	})
}

// All members are lost, and there is a snapshot: the command makes the missing directory of a node,
// with a CA of its own. It can be typed again after each step.
func TestRestore_firstNode(t *testing.T) {
	lost := newNode(t)
	file := lost.snapshot(t, keys.Cluster(), keys.Node("b"), keys.JoinToken("x"))
	n := &node{path: filepath.Join(t.TempDir(), "new")}
	cfg := backup.Config{
		DataDir: n.path, Address: "127.0.0.3", File: file, Prefix: prefix, Command: command, GiveRole: role.GiveConsensus, Log: slog.New(slog.DiscardHandler),
		First: &backup.First{Node: "z", PeerPort: freePort(t), ClientPort: freePort(t), JoinPort: freePort(t)},
	}
	mistyped := cfg
	mistyped.Address = "198.51.100.1" // of documentation
	if _, err := backup.Restore(t.Context(), mistyped); err == nil || !strings.Contains(err.Error(), "--node-address") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(n.path); err == nil {
		t.Error("the directory was made for an address that this machine does not have")
	}
	// Interrupted before the member starts.
	broken := cfg
	broken.Command = []string{"/bin/false"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	if _, err := backup.Restore(ctx, broken); err == nil {
		t.Error("no member started, and the command succeeded")
	}
	cancel()
	if got := n.read(t); got.Intent != datadir.Restore || got.Phase != datadir.Begun || got.Node != "z" || got.CAHash == "" {
		t.Errorf("got %+v", got)
	}
	ctx, cancel = context.WithTimeout(t.Context(), limit)
	defer cancel()
	restored, err := backup.Restore(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if n.marker = n.read(t); n.marker.Phase != datadir.Member || n.marker.Address != cfg.Address || n.marker.PeerPort != cfg.First.PeerPort || restored.Restores != 1 {
		t.Errorf("got %+v, %+v", n.marker, restored)
	}
	n.run(t, func(c *etcd.Client, s member.State) {
		got := listing(t, c)
		self, err := record.DecodeMember(keys.ClusterMember(s.MemberID), []byte(got[keys.ClusterMember(s.MemberID)]))
		if _, token := got[keys.JoinToken("x")]; err != nil || self.Node != "z" || self.Address != cfg.Address || got[keys.Node("b")] != "value" || token {
			t.Errorf("got %+v, %v in %v", self, err, got)
		}
	})
}

// The only member of the restored cluster is a member by its roles, also on a node that lost them.
func TestRestore_role(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(t.TempDir(), "snapshot")
	was := protocol.Node{ID: "a", Roles: protocol.Roles{Worker: true}}
	n.run(t, func(c *etcd.Client, _ member.State) {
		put(t, c, keys.Cluster())
		if _, err := c.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpPut(keys.Node("a"), string(fleet.Encode(was)))}, nil); err != nil {
			t.Error(err)
		}
		if _, err := backup.Save(t.Context(), c, file); err != nil {
			t.Error(err)
		}
	})
	disk := role.NewDisk(n.layout().Roles())
	if err := disk.SetRoles(was.Roles); err != nil {
		t.Fatal(err)
	}
	if _, err := restore(t, n, file); err != nil {
		t.Fatal(err)
	}
	want := protocol.Roles{Worker: true, Consensus: true}
	if err := disk.Load(); err != nil {
		t.Error(err)
	}
	if got, _ := disk.Roles(); got != want {
		t.Errorf("on the disk: got %v", got.Names())
	}
	n.marker = n.read(t)
	n.run(t, func(c *etcd.Client, _ member.State) {
		all, err := fleet.List(t.Context(), c)
		if record, _ := all.Record("a"); err != nil || record.Node.Roles != want {
			t.Errorf("in the record: got %v, %v", record.Node.Roles.Names(), err)
		}
	})
}

// A restoration that was interrupted is completed by the next one. The data from
// before the first one is kept.
func TestRestore_interrupted(t *testing.T) {
	n := newNode(t)
	file := n.snapshot(t, keys.Node("b"), keys.Cluster())
	old := n.layout().Etcd() + ".replaced-1"
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

// A restoration is killed after each of its steps, and typed again. It is the same restoration then; the data of before
// is kept, and so are the copies of all earlier ones.
func TestRestore_killedAfterEachStep(t *testing.T) {
	n := newNode(t)
	file := n.snapshot(t, keys.Node("b"), keys.Cluster())
	cfg := backup.Config{DataDir: n.path, File: file, Prefix: prefix, Command: command, GiveRole: role.GiveConsensus, Log: slog.New(slog.DiscardHandler)}
	var copies []string
	for count, more := 1, true; more; count++ {
		present := fmt.Sprint("present-", count)
		if err := os.WriteFile(filepath.Join(n.layout().Etcd(), present), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if more, err = backup.RestoreUntil(t.Context(), cfg, count); err != nil {
			t.Fatal(err)
		}
		killed := n.read(t)
		if more {
			if _, err := restore(t, n, file); err != nil {
				t.Fatalf("killed after %d steps: %v", count, err)
			}
		}
		now := n.read(t)
		if begun := killed.Intent == datadir.Restore && killed.Phase == datadir.Begun; begun && now.Cluster != killed.Cluster || now.Restores != count || now.Phase != datadir.Member {
			t.Errorf("killed after %d steps: the marker was %+v, and is %+v", count, killed, now)
		}
		copies = append(copies, filepath.Join(fmt.Sprint(n.layout().Etcd(), ".replaced-", count), present))
		for _, path := range copies {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("killed after %d steps: %v", count, err)
			}
		}
	}
	if len(copies) != 7 {
		t.Errorf("got %d steps", len(copies))
	}
}

// A second restoration that is interrupted before it moves anything keeps the existing data, beside
// the copy of the first one, and does not take a copy of unknown origin for its own.
func TestRestore_secondInterrupted(t *testing.T) {
	n := newNode(t)
	file := n.snapshot(t, keys.Node("b"), keys.Cluster())
	unknown := n.layout().Etcd() + ".replaced-1"
	if err := os.Mkdir(unknown, 0o700); err != nil {
		t.Fatal(err)
	}
	var copies []string
	for _, interrupted := range []bool{false, true} {
		present := filepath.Join(n.layout().Etcd(), fmt.Sprint("present-", interrupted))
		if err := os.WriteFile(present, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if interrupted { // as begin leaves it
			n.marker = n.read(t)
			n.marker.Cluster, n.marker.Phase, n.marker.Restores = "third", datadir.Begun, n.marker.Restores+1
			n.write(t)
		}
		restored, err := restore(t, n, file)
		if err != nil || restored.Replaced == unknown {
			t.Fatalf("got %+v, %v", restored, err)
		}
		copies = append(copies, filepath.Join(restored.Replaced, filepath.Base(present)))
	}
	for _, path := range append(copies, unknown) {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("what was there: %v", err)
		}
	}
}

// A snapshot without a cluster below the prefix is of another cluster, or the prefix is
// mistyped. The right prefix completes the restoration.
func TestRestore_otherPrefix(t *testing.T) {
	n := newNode(t)
	file := n.snapshot(t, keys.Cluster())
	cfg := backup.Config{DataDir: n.path, File: file, Prefix: "/q", Command: command, GiveRole: role.GiveConsensus, Log: slog.New(slog.DiscardHandler)}
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
