package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Config is the input of Restore. All is required except Address and First.
type Config struct {
	DataDir string   // of a node that was a member, whose sidecar is stopped
	Address string   // the IP address of the node from now on; empty: the address in the directory
	First   *First   // of a directory that is missing or empty: all members are lost. It needs Address
	File    string   // from Save
	Prefix  string   // of all keys
	Command []string // runs the member: this program's hidden command
	// GiveRole adds the role of a member of etcd to the roles in the file with that path, which need not exist.
	GiveRole func(path string) error
	Log      *slog.Logger
}

// First is a node that was no member.
type First struct {
	Node                           string
	PeerPort, ClientPort, JoinPort int
}

// Restored is the result of Restore.
type Restored struct {
	Saved
	Cluster  string // the new ID of the cluster
	Restores int    // how often it was restored, this time included
	// Replaced is the directory with the data of etcd as it was; empty: there was none.
	Replaced string
}

// The revision of a restored store grows with its time of restoration: ten for each millisecond since
// 2020. No store reaches that by writes. So no revision is used for two things, neither by a write
// since the snapshot nor by an earlier restoration of the same one. If the clock went back, the newest
// revision of the present data counts, and the first one of the last restored store.
// Revisions below it count as compacted: watches from before do not wait for ever.
const revisionsPerMillisecond = 10

var revisionsBegin = time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)

// minBump is the number of revisions that are left out at least, such as when the clock went back.
const minBump = 1_000_000

// firstRevision is the one at which a restored store begins. used are revisions that were used before.
func firstRevision(now time.Time, used ...int64) int64 {
	return max(now.Sub(revisionsBegin).Milliseconds()*revisionsPerMillisecond, slices.Max(used)+minBump)
}

// Restore makes a cluster of one member, this node, from a snapshot. The cluster gets a
// new ID, so old members can never mix with it. Restore deletes the old members, tokens
// and lock; the records of nodes stay, since their API servers may still run. It deletes
// the status too: that is older than the objects, which are in another etcd. The leader
// rebuilds it from them (docs/protocol.md#assumptions). If it is interrupted it can be
// called again.
func Restore(ctx context.Context, cfg Config) (restored Restored, err error) {
	r, err := newRestoration(cfg)
	if err != nil {
		return Restored{}, err
	}
	defer func() { err = errors.Join(err, r.dir.Close()) }()
	for _, step := range r.steps() {
		if err := step(ctx); err != nil {
			return Restored{}, fmt.Errorf("restore: %w", err)
		}
	}
	return r.out, nil
}

// newRestoration checks the snapshot, and locks the directory. It takes no step.
func newRestoration(cfg Config) (*restoration, error) {
	saved, err := Verify(cfg.File)
	if err != nil {
		return nil, err
	}
	if err := checkFirst(&cfg); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	dir, err := datadir.Open(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	return &restoration{Config: cfg, dir: dir, out: Restored{Saved: saved}}, nil
}

// steps are the steps of a restoration. After a kill in any of them, all are taken again.
func (r *restoration) steps() []func(context.Context) error {
	return []func(context.Context) error{r.checkAddress, r.begin, r.credentials, r.makeData, r.moveAway, r.replaceData, r.startMember}
}

// checkFirst requires the directory of a member, or First and a usable Address for a new directory.
// Open would make a directory whose name is mistyped.
func checkFirst(cfg *Config) error {
	_, err := datadir.Layout(cfg.DataDir).ReadMarker()
	switch {
	case !errors.Is(err, datadir.ErrNoMarker):
		cfg.First = nil
		return nil
	case cfg.First == nil || cfg.Address == "":
		return fmt.Errorf("data directory %q: %w: use the directory of a node that was a member, or, if all of them are lost, "+
			"type the command again with --node-id and --node-address: docs/clusters.md#restore-elsewhere", cfg.DataDir, err)
	}
	if problem := cmp.Or(nodeaddress.Malformed(cfg.Address), nodeaddress.Missing(cfg.Address)); problem != "" {
		return fmt.Errorf("--node-address: %s %s", cfg.Address, problem)
	}
	return nil
}

type restoration struct {
	Config
	dir    *datadir.Dir
	marker datadir.Marker
	out    Restored
}

// checkAddress requires that this machine has the address of the node. etcd cannot start without it, and
// the restoration must not give up the old cluster before that is known.
func (r *restoration) checkAddress(context.Context) error {
	if r.First != nil { // it was checked
		return nil
	}
	marker, err := r.dir.ReadMarker()
	if err != nil {
		return err
	}
	r.Address = cmp.Or(r.Address, marker.Address)
	if problem := cmp.Or(nodeaddress.Malformed(r.Address), nodeaddress.Missing(r.Address)); problem != "" {
		return fmt.Errorf("data directory %q: the node's address %s %s; nothing was changed: type the command again with --node-address and one that it has: docs/clusters.md#restore-elsewhere",
			r.DataDir, r.Address, problem)
	}
	return nil
}

// begin writes the marker of the new cluster. From here on the old one is given up.
func (r *restoration) begin(context.Context) error {
	marker, err := r.dir.ReadMarker()
	switch {
	case r.First != nil && errors.Is(err, datadir.ErrNoMarker):
		marker.Node = r.First.Node
		marker.PeerPort, marker.ClientPort, marker.JoinPort = r.First.PeerPort, r.First.ClientPort, r.First.JoinPort
	case err != nil:
		return err
	}
	if marker.Intent != datadir.Restore || marker.Phase != datadir.Begun { // none was interrupted
		marker.Cluster, marker.Intent, marker.Phase = datadir.NewClusterID(), datadir.Restore, datadir.Begun
		marker.EtcdClusterID, marker.MemberID = "", ""
		// The next number without a copy, such as of a member that was here before: data
		// would take that copy for its own.
		marker.Restores++
		for exists(r.copyOf(marker)) {
			marker.Restores++
		}
	}
	marker.Address = r.Address
	r.marker, r.out.Cluster, r.out.Restores = marker, marker.Cluster, marker.Restores
	return r.dir.WriteMarker(marker)
}

// copyOf is where a restoration keeps the data of etcd as it was.
func (r *restoration) copyOf(marker datadir.Marker) string {
	return r.dir.Etcd() + replaced + strconv.Itoa(marker.Restores)
}

// credentials renews certificates that expired meanwhile, or are for another address. A directory that
// was empty gets a CA of its own: all nodes with the old CA's key are lost.
func (r *restoration) credentials(context.Context) error {
	if r.marker.CAHash == "" {
		if err := datadir.MakeDir(r.dir.PKI()); err != nil {
			return err
		}
		ca, err := pki.EnsureCA(r.dir.PKI(), r.marker.Cluster)
		if err != nil {
			return err
		}
		r.marker.CAHash = ca.Hash().String()
		if err := r.dir.WriteMarker(r.marker); err != nil {
			return err
		}
	}
	_, err := pki.Renew(r.dir.PKI(), r.marker.Node, r.marker.Address, time.Now())
	return err
}

// The names beside the directory of etcd.
const (
	beingMade = ".restoring"
	replaced  = ".replaced-" // and the number of the restoration
)

// makeData makes the new data of etcd beside the old.
func (r *restoration) makeData(ctx context.Context) error {
	made := r.dir.Etcd() + beingMade
	if err := os.RemoveAll(made); err != nil {
		return err
	}
	// An earlier attempt may have served clients: this one begins at another revision, also if the clock went back.
	r.marker.Revision = firstRevision(time.Now(), r.out.Revision, r.marker.Revision, r.dataRevision())
	if err := r.dir.WriteMarker(r.marker); err != nil {
		return err
	}
	making := r.member(made)
	making.Spec.Snapshot = &member.Snapshot{File: r.File, Bump: uint64(r.marker.Revision - r.out.Revision)} //nolint:gosec // it is positive
	if err := member.MakeData(ctx, making); err != nil {
		return errors.Join(err, os.RemoveAll(made))
	}
	return nil
}

// replaceData gives the new data its place. The list of before names members that no longer exist.
func (r *restoration) replaceData(context.Context) error {
	if err := errors.Join(os.Rename(r.dir.Etcd()+beingMade, r.dir.Etcd()), durable.Remove(r.dir.Members())); err != nil {
		return err
	}
	return durable.SyncDir(r.dir.Path())
}

// dataRevision returns the newest revision of the data that is replaced; 0: there is none, or it is damaged.
func (r *restoration) dataRevision() int64 {
	file := r.dir.Database()
	if !exists(file) {
		return 0
	}
	revision, err := newestRevision(file)
	if err != nil {
		r.Log.Warn("the newest revision of the data that is replaced cannot be read: check the clock of this node", "err", err)
	}
	return revision
}

// moveAway renames the old data of etcd: it may be the only copy, which the next restoration keeps, too. If this
// restoration did so before it was interrupted, the data is its own, and moveAway deletes it instead.
func (r *restoration) moveAway(context.Context) error {
	old := r.copyOf(r.marker)
	switch {
	case exists(old):
		r.out.Replaced = old
		return os.RemoveAll(r.dir.Etcd())
	case !exists(r.dir.Etcd()):
		return nil
	}
	r.out.Replaced = old
	return os.Rename(r.dir.Etcd(), old)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// startLimit is how long etcd may take to start on the restored data. It takes a second.
const startLimit = 2 * time.Minute

// member is how this node's member runs on the data in dir.
func (r *restoration) member(dir string) member.Config {
	return member.Config{
		Command: r.Command, Lock: r.dir.Lock(), Log: r.Log,
		Spec: member.Spec{
			Dir: dir, Name: r.marker.Node, PeerURL: r.marker.PeerURL(), ClientURL: r.marker.ClientURL(),
			InitialCluster: r.marker.Node + "=" + r.marker.PeerURL(), Token: r.marker.Cluster,
			CAFile: r.dir.CACert(), CertFile: r.dir.NodeCert(), KeyFile: r.dir.NodeKey(),
			QuotaBytes: member.NoQuota, // the snapshot may be from a full etcd
		},
	}
}

// startMember runs the member while forget deletes the records of the old cluster.
// No other node can be a member before that.
func (r *restoration) startMember(ctx context.Context) error {
	supervisor := member.New(r.member(r.dir.Etcd()))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- supervisor.Run(running) }()
	limited, cancel := context.WithTimeout(ctx, startLimit)
	err := supervisor.AwaitReady(limited)
	cancel()
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("the etcd member is not ready after %s: %w: %s; repair that, and type the command again", startLimit, err, supervisor.State().Get().LastExit)
	}
	if err == nil {
		err = r.forget(ctx, supervisor.State().Get())
	}
	stop()
	if stopped := <-ended; err == nil && !errors.Is(stopped, context.Canceled) {
		err = stopped
	}
	return err
}

// forget replaces the cluster's records in etcd, and then completes the marker.
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
	if err := makeSpace(ctx, client, r.marker.ClientURL()); err != nil {
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
	cluster := record.Cluster{ID: r.marker.Cluster, EtcdClusterID: now.ClusterID, CA: ca.Hash(), Created: time.Now()}
	// One request may not both delete a range and write into it.
	if _, err := client.Txn(ctx, nil, []clientv3.Op{
		clientv3.OpDelete(keys.ClusterMembers(), clientv3.WithPrefix()),
		clientv3.OpDelete(keys.ClusterLearners(), clientv3.WithPrefix()),
		clientv3.OpDelete(keys.RemovedMembers(), clientv3.WithPrefix()),
		clientv3.OpDelete(keys.JoinTokens(), clientv3.WithPrefix()),
		clientv3.OpDelete(keys.ClusterLock(), clientv3.WithPrefix()),
		clientv3.OpDelete(keys.Rotation()),
		clientv3.OpDelete(keys.RotationReports(), clientv3.WithPrefix()),
		clientv3.OpDelete(keys.Status()),
		clientv3.OpPut(keys.Cluster(), string(record.EncodeCluster(cluster))),
	}, nil); err != nil {
		return err
	}
	own := clientv3.OpPut(keys.ClusterMember(self.ID), string(record.EncodeMember(self)))
	if _, err := client.Txn(ctx, nil, []clientv3.Op{own}, nil); err != nil {
		return err
	}
	if err := r.giveRole(ctx, client); err != nil {
		return err
	}
	r.marker.Phase = datadir.Member
	r.marker.MemberID, r.marker.EtcdClusterID = keyspace.MemberID(now.MemberID), keyspace.MemberID(now.ClusterID)
	return r.dir.WriteMarker(r.marker)
}

// makeSpace drops old revisions and unused space, and ends the alarm of a full database: a snapshot
// of a full etcd contains all of these. The alarm comes last, as the member accepts writes from
// then on.
func makeSpace(ctx context.Context, client *etcd.Client, clientURL string) error {
	if err := client.Compact(ctx); err != nil {
		return err
	}
	if err := client.Defragment(ctx, clientURL); err != nil {
		return err
	}
	_, err := client.DisarmNoSpace(ctx)
	return err
}

// giveRole gives this node the role of a member, in case it lost that before the snapshot was saved
// or since: it is the only member now, and would try to leave without the role.
func (r *restoration) giveRole(ctx context.Context, client *etcd.Client) error {
	if err := r.GiveRole(r.dir.Roles()); err != nil {
		return err
	}
	return fleet.GiveConsensus(ctx, client, protocol.NodeID(r.marker.Node))
}
