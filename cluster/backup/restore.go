package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/cluster/datadir"
	"github.com/lockstep-dev/lockstep/cluster/member"
	"github.com/lockstep-dev/lockstep/cluster/pki"
	"github.com/lockstep-dev/lockstep/cluster/quorum"
	"github.com/lockstep-dev/lockstep/cluster/record"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// Config has what Restore needs. All is required.
type Config struct {
	DataDir string   // of a node that was a member, whose sidecar is stopped
	File    string   // from Save
	Prefix  string   // of all keys
	Command []string // runs the member: this program's hidden command
	Log     *slog.Logger
}

// Restored is what Restore has made.
type Restored struct {
	Saved
	Cluster  string // the new ID of the cluster
	Restores int    // how often it was restored, this time included
	// Replaced is the directory with the data of etcd as it was; empty: there was none.
	Replaced string
}

// bump is what the revision of a restored store is raised by: more than were written
// since the snapshot, so that no revision is used for two things. What is below it
// counts as compacted, so that watches of before do not wait for ever.
const bump = 1_000_000_000

// Restore makes a cluster of one member, this node, of a snapshot. The cluster has a
// new ID, so members of before can never mix with it. Members, tokens and the lock of
// before are deleted; the records of nodes stay, since their API servers may still run.
// The status is deleted too: it is older than the objects, which are in another etcd. The
// leader rebuilds it from them (docs/protocol.md#assumptions).
// If it is interrupted it can be called again.
func Restore(ctx context.Context, cfg Config) (restored Restored, err error) {
	saved, err := Verify(cfg.File)
	if err != nil {
		return Restored{}, err
	}
	// Open would make a directory whose name is mistyped.
	if _, err := datadir.Layout(cfg.DataDir).ReadMarker(); errors.Is(err, datadir.ErrNoMarker) {
		return Restored{}, fmt.Errorf("restore: data directory %q: %w: use the directory of a node that was a member", cfg.DataDir, err)
	}
	dir, err := datadir.Open(cfg.DataDir)
	if err != nil {
		return Restored{}, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	r := &restoration{Config: cfg, dir: dir, out: Restored{Saved: saved}}
	for _, step := range []func(context.Context) error{r.begin, r.credentials, r.data, r.startMember} {
		if err := step(ctx); err != nil {
			return Restored{}, fmt.Errorf("restore: %w", err)
		}
	}
	return r.out, nil
}

type restoration struct {
	Config
	dir    *datadir.Dir
	marker datadir.Marker
	again  bool // an earlier one was interrupted
	out    Restored
}

// begin writes the marker of the new cluster. From here on the old one is given up.
func (r *restoration) begin(context.Context) error {
	marker, err := r.dir.ReadMarker()
	if err != nil {
		return err
	}
	r.again = marker.Intent == datadir.Restore && marker.Phase == datadir.Begun
	if !r.again {
		marker.Cluster, marker.Intent, marker.Phase = datadir.NewClusterID(), datadir.Restore, datadir.Begun
		marker.EtcdClusterID, marker.MemberID = "", ""
		marker.Restores++
	}
	r.marker, r.out.Cluster, r.out.Restores = marker, marker.Cluster, marker.Restores
	return r.dir.WriteMarker(marker)
}

// credentials renews what has expired meanwhile.
func (r *restoration) credentials(context.Context) error {
	_, err := pki.Renew(r.dir.PKI(), r.marker.Node, r.marker.Address, time.Now())
	return err
}

// The names beside the directory of etcd.
const (
	beingMade = ".restoring"
	replaced  = ".replaced"
)

// data makes the data of etcd beside what is there, and then replaces that. What was
// there before is kept, until the next restoration.
func (r *restoration) data(context.Context) error {
	made, old := r.dir.Etcd()+beingMade, r.dir.Etcd()+replaced
	if err := os.RemoveAll(made); err != nil {
		return err
	}
	err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: r.File, OutputDataDir: made, Name: r.marker.Node, PeerURLs: []string{r.marker.PeerURL()},
		InitialCluster: r.marker.Node + "=" + r.marker.PeerURL(), InitialClusterToken: r.marker.Cluster,
		RevisionBump: bump, MarkCompacted: true, // one without the other is ignored
	})
	if err != nil {
		return errors.Join(fmt.Errorf("%q: %w", r.File, err), os.RemoveAll(made))
	}
	if err := r.moveAway(old); err != nil {
		return err
	}
	// The list names members that no longer exist.
	if err := errors.Join(os.Rename(made, r.dir.Etcd()), durable.Remove(r.dir.Members())); err != nil {
		return err
	}
	return durable.SyncDir(r.dir.Path())
}

// moveAway renames the data of etcd. What an interrupted restoration made is deleted
// instead.
func (r *restoration) moveAway(old string) error {
	switch {
	case r.again && exists(old):
		r.out.Replaced = old
		return os.RemoveAll(r.dir.Etcd())
	case !exists(r.dir.Etcd()):
		return nil
	}
	r.out.Replaced = old
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	return os.Rename(r.dir.Etcd(), old)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// startMember runs the member while what belongs to the old cluster is deleted. No
// other node can be a member before that.
func (r *restoration) startMember(ctx context.Context) error {
	supervisor := member.New(member.Config{
		Command: r.Command, Lock: r.dir.Lock(), Log: r.Log,
		Spec: member.Spec{
			Dir: r.dir.Etcd(), Name: r.marker.Node, PeerURL: r.marker.PeerURL(), ClientURL: r.marker.ClientURL(),
			InitialCluster: r.marker.Node + "=" + r.marker.PeerURL(), Token: r.marker.Cluster,
			CAFile: r.dir.CACert(), CertFile: r.dir.NodeCert(), KeyFile: r.dir.NodeKey(),
		},
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- supervisor.Run(running) }()
	err := supervisor.AwaitReady(ctx)
	if err == nil {
		err = r.forget(ctx, supervisor.State().Get())
	}
	stop()
	if stopped := <-ended; err == nil && !errors.Is(stopped, context.Canceled) {
		err = stopped
	}
	return err
}

// forget replaces what etcd has of the cluster, and then completes the marker.
func (r *restoration) forget(ctx context.Context, now member.State) (err error) {
	client, err := etcd.NewClient(etcd.Config{
		Endpoints: []string{r.marker.ClientURL()}, Prefix: r.Prefix,
		CAFile: r.dir.CACert(), CertFile: r.dir.NodeCert(), KeyFile: r.dir.NodeKey(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	ca, err := pki.LoadCA(r.dir.PKI())
	if err != nil {
		return err
	}
	cert, err := pki.ReadCertificate(r.dir.PKI())
	if err != nil {
		return err
	}
	keys := keyspace.Under(r.Prefix)
	if before, err := client.Get(ctx, keys.Cluster(), clientv3.WithCountOnly()); err != nil {
		return err
	} else if before.Count == 0 {
		return fmt.Errorf("%q has no cluster below the prefix %s: type the command again with the --etcd-prefix of the sidecars, or with another file", r.File, client.Prefix())
	}
	self := quorum.NewMember(now.MemberID, r.marker, cert)
	self.Added = time.Now()
	cluster := record.Cluster{ID: r.marker.Cluster, EtcdClusterID: now.ClusterID, CA: record.Hash(ca.Hash()), Created: time.Now()}
	// One request may not both delete a range and write into it.
	if _, err := client.Txn(ctx, nil, []clientv3.Op{
		clientv3.OpDelete(keys.ClusterMembers(), clientv3.WithPrefix()),
		clientv3.OpDelete(keys.ClusterLearners(), clientv3.WithPrefix()),
		clientv3.OpDelete(keys.RemovedMembers(), clientv3.WithPrefix()),
		clientv3.OpDelete(keys.JoinTokens(), clientv3.WithPrefix()),
		clientv3.OpDelete(keys.ClusterLock(), clientv3.WithPrefix()),
		clientv3.OpDelete(keys.Status()),
		clientv3.OpPut(keys.Cluster(), string(record.EncodeCluster(cluster))),
	}, nil); err != nil {
		return err
	}
	own := clientv3.OpPut(keys.ClusterMember(self.ID), string(record.EncodeMember(self)))
	if _, err := client.Txn(ctx, nil, []clientv3.Op{own}, nil); err != nil {
		return err
	}
	r.marker.Phase = datadir.Member
	r.marker.MemberID, r.marker.EtcdClusterID = keyspace.MemberID(now.MemberID), keyspace.MemberID(now.ClusterID)
	return r.dir.WriteMarker(r.marker)
}
