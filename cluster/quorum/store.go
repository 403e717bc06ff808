package quorum

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/cluster/record"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// stored is what etcd has of the members, below the prefix, at one revision.
type stored struct {
	cluster  *record.Cluster // nil: the etcd is not one that the sidecars run
	members  map[uint64]record.Member
	learners map[uint64]record.Learner
	removed  []record.Member
}

// readStored reads all records. Corrupt ones count as missing: the members themselves
// are what counts.
func readStored(ctx context.Context, client *etcd.Client) (stored, error) {
	keys := keyspace.Under(client.Prefix())
	resp, err := client.Txn(ctx, nil, []clientv3.Op{
		clientv3.OpGet(keys.Cluster()),
		clientv3.OpGet(keys.ClusterMembers(), clientv3.WithPrefix()),
		clientv3.OpGet(keys.ClusterLearners(), clientv3.WithPrefix()),
		clientv3.OpGet(keys.RemovedMembers(), clientv3.WithPrefix()),
	}, nil)
	if err != nil {
		return stored{}, fmt.Errorf("read the records of the members: %w", err)
	}
	out := stored{members: map[uint64]record.Member{}, learners: map[uint64]record.Learner{}}
	for _, kv := range etcd.NewListing(resp, 0).KVs {
		if c, err := record.DecodeCluster(kv.Value); err == nil {
			out.cluster = &c
		}
	}
	for _, kv := range etcd.NewListing(resp, 1).KVs {
		if m, err := record.DecodeMember(kv.Key, kv.Value); err == nil {
			out.members[m.ID] = m
		}
	}
	for _, kv := range etcd.NewListing(resp, 2).KVs {
		l := record.DecodeLearner(kv.Key, kv.Value)
		out.learners[l.ID] = l
	}
	for _, kv := range etcd.NewListing(resp, 3).KVs {
		if m, err := record.DecodeMember(kv.Key, kv.Value); err == nil {
			out.removed = append(out.removed, m)
		}
	}
	return out, nil
}

// ReadCluster returns the record of the cluster. It returns ErrNoCluster if the etcd is
// not one that the sidecars run themselves.
func ReadCluster(ctx context.Context, client *etcd.Client) (record.Cluster, error) {
	s, err := readStored(ctx, client)
	switch {
	case err != nil:
		return record.Cluster{}, err
	case s.cluster == nil:
		return record.Cluster{}, ErrNoCluster
	}
	return *s.cluster, nil
}

// write makes changes that depend on nothing: what they say was done to the members
// already.
func write(ctx context.Context, client *etcd.Client, ops ...clientv3.Op) error {
	if _, err := client.Txn(ctx, nil, ops, nil); err != nil {
		return fmt.Errorf("write the records of the members: %w", err)
	}
	return nil
}
