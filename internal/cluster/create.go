package cluster

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// createSteps make a new cluster whose only member is this node. Until the
// marker's phase is Member, no other node knows the cluster.
func createSteps() []step {
	return []step{
		{"directory", openDirectory},
		{"marker", markCreate},
		{"ca", createCA},
		{"certificate", ensureCertificate},
		{"etcd", clearEtcd},
		{"member", startFirstMember},
		{"ready", awaitMember},
		{"record", writeRecord},
		{"announce", announce},
		{"phase", markMember},
	}
}

// markCreate writes into the marker that this directory is for a new cluster. The
// cluster's UUID is chosen here once.
func markCreate(_ context.Context, f *flow) error {
	if f.marker.Cluster != "" {
		return nil // an earlier run began
	}
	return f.writeMarker(func(m *datadir.Marker) {
		*m = datadir.Marker{
			Cluster: datadir.NewClusterID(), Node: f.cfg.Node, Address: f.cfg.Address,
			PeerPort: f.cfg.PeerPort, ClientPort: f.cfg.ClientPort, JoinPort: f.cfg.JoinPort,
			Intent: datadir.Create, Phase: datadir.Begun,
		}
	})
}

// createCA makes the CA of the cluster, and writes its hash into the marker.
func createCA(_ context.Context, f *flow) error {
	if err := datadir.MakeDir(f.dir.PKI()); err != nil {
		return err
	}
	ca, err := pki.EnsureCA(f.dir.PKI(), f.marker.Cluster)
	if err != nil {
		return err
	}
	if hash := ca.Hash().String(); f.marker.CAHash != hash {
		return f.writeMarker(func(m *datadir.Marker) { m.CAHash = hash })
	}
	return nil
}

// ensureCertificate issues the certificate of this node, if there is none that is
// valid. This node made the CA, so that needs no other node.
func ensureCertificate(_ context.Context, f *flow) error {
	ca, err := pki.LoadCA(f.dir.PKI())
	if err != nil {
		return err
	}
	_, err = pki.EnsureCertificate(f.dir.PKI(), ca, f.cfg.Node, f.marker.Address)
	return err
}

// startFirstMember starts the only member of a new cluster.
func startFirstMember(ctx context.Context, f *flow) error {
	return f.start(ctx, member.Spec{InitialCluster: initialCluster(f.marker, nil)})
}

// awaitMember waits until the member is part of a majority, without a limit.
func awaitMember(ctx context.Context, f *flow) error { return f.await(ctx) }

// announce makes the record of this member in etcd true.
func announce(ctx context.Context, f *flow) error { return f.record.announce(ctx) }

// clearEtcd deletes the files of an etcd that ended before it wrote a log.
func clearEtcd(_ context.Context, f *flow) error { return f.clearUnbegun() }

// writeRecord writes the cluster's record, which says that it was created here. A record of
// another cluster means that this etcd does not belong to this directory. writeRecord reads
// first: an etcd whose database is full refuses even a transaction that would write nothing.
func writeRecord(ctx context.Context, f *flow) error {
	key := keyspace.Under(f.client.Prefix()).Cluster()
	existing, err := f.client.Get(ctx, key)
	if err != nil {
		return transient(fmt.Errorf("read the cluster's record: %w", err))
	}
	if len(existing.Kvs) > 0 {
		return checkRecord(f, existing.Kvs[0].Value)
	}
	ca, err := pki.ReadAuthority(f.dir.PKI())
	if err != nil {
		return err
	}
	value := record.EncodeCluster(record.Cluster{
		ID: f.marker.Cluster, EtcdClusterID: f.current().ids().cluster, CA: pki.HashOf(ca), Created: time.Now(),
	})
	_, err = f.client.Write(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)}, clientv3.OpPut(key, string(value)))
	if err != nil { // with ErrChanged, the next attempt reads it
		return transient(fmt.Errorf("write the cluster's record: %w", err))
	}
	return nil
}

// checkRecord compares the record in etcd with the marker. If a node was added while the cluster
// was being restored, its etcd belongs to the cluster in the record, and only the ID in the
// marker is old. checkRecord replaces it, because together several such members could be the
// majority.
func checkRecord(f *flow, value []byte) error {
	existing, err := record.DecodeCluster(value)
	if err != nil || existing.ID == f.marker.Cluster {
		return err
	}
	if ids := f.current().ids(); f.marker.Phase == datadir.Member && ids.cluster != 0 && existing.EtcdClusterID == ids.cluster {
		f.log.Warn("the marker has the cluster's ID of before a restore; it gets the present one", "before", f.marker.Cluster, "cluster", existing.ID)
		return f.writeMarker(func(m *datadir.Marker) { m.Cluster = existing.ID })
	}
	return &datadir.RefusedError{
		Path: f.dir.Path(), Problem: fmt.Sprintf("is that of cluster %s, and etcd has the record of cluster %s", f.marker.Cluster, existing.ID),
		Remedy: "the directory is a mix of two; " + f.dir.ReplaceNode(f.marker),
	}
}

// markMember ends the creation: from here on, the directory of etcd is never made
// again.
func markMember(_ context.Context, f *flow) error {
	return f.settle(f.current().ids())
}
