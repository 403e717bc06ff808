package quorum

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// stored contains the records of the members, from below the prefix, at one revision.
type stored struct {
	cluster *record.Cluster // nil: the etcd is not one that the sidecars run
	members map[uint64]record.Member
	removed []record.Member
	// revisions maps keys to mod revisions; 0: there is no such key. It contains the
	// members' records, corrupt ones too, and after readRoles the members' node records.
	revisions map[string]int64
	at        int64 // the revision of the store
	// lost are the nodes of members that lost the role of a member. Only readRoles
	// fills it.
	lost map[protocol.NodeID]bool
	// rotation is the replacement of the CA; its zero value: there never was one.
	rotation record.Rotation
	reports  map[protocol.NodeID]record.RotationReport
}

// readMembers lists the members, and then reads all records.
func readMembers(ctx context.Context, client *etcd.Client) (list []etcd.Member, s stored, err error) {
	if list, err = client.Members(ctx); err == nil {
		s, err = readStored(ctx, client)
	}
	return list, s, err
}

// readStored reads all records. Corrupt ones count as missing: the list of the
// members itself decides.
func readStored(ctx context.Context, client *etcd.Client) (stored, error) {
	keys := keyspace.Under(client.Prefix())
	resp, err := client.Txn(ctx, nil, []clientv3.Op{
		clientv3.OpGet(keys.Cluster()),
		clientv3.OpGet(keys.ClusterMembers(), clientv3.WithPrefix()),
		clientv3.OpGet(keys.RemovedMembers(), clientv3.WithPrefix()),
		clientv3.OpGet(keys.Rotation()),
		clientv3.OpGet(keys.RotationReports(), clientv3.WithPrefix()),
	}, nil)
	if err != nil {
		return stored{}, fmt.Errorf("read the records of the members: %w", err)
	}
	out := stored{
		members: map[uint64]record.Member{}, revisions: map[string]int64{}, at: resp.Header.Revision,
		lost: map[protocol.NodeID]bool{},
	}
	for _, kv := range etcd.NewListing(resp, 0).KVs {
		if c, err := record.DecodeCluster(kv.Value); err == nil {
			out.cluster = &c
		}
	}
	for _, kv := range etcd.NewListing(resp, 1).KVs {
		out.revisions[kv.Key] = kv.ModRevision
		if m, err := record.DecodeMember(kv.Key, kv.Value); err == nil {
			out.members[m.ID] = m
		}
	}
	for _, kv := range etcd.NewListing(resp, 2).KVs {
		if m, err := record.DecodeMember(kv.Key, kv.Value); err == nil {
			out.removed = append(out.removed, m)
		}
	}
	return out, out.readRotation(resp)
}

// readRotation reads the record and the reports about the replacement of the CA. A corrupt one
// is an error: nothing may be signed by mistake.
func (s *stored) readRotation(resp *clientv3.TxnResponse) error {
	s.reports = map[protocol.NodeID]record.RotationReport{}
	for _, kv := range etcd.NewListing(resp, 3).KVs {
		r, err := decodeRotation(*kv)
		if err != nil {
			return err
		}
		s.rotation = r
	}
	for _, kv := range etcd.NewListing(resp, 4).KVs {
		if r, err := record.DecodeRotationReport(kv.Key, kv.Value); err == nil {
			s.reports[r.Node] = r
		}
	}
	return nil
}

// readRoles reads the roles of the nodes that are members. A record that is missing or
// corrupt takes no role away.
func (s *stored) readRoles(ctx context.Context, client *etcd.Client) error {
	keys := keyspace.Under(client.Prefix())
	var ops []clientv3.Op
	for _, m := range s.members {
		if m.Node == "" {
			continue // it is being evicted
		}
		key := keys.Node(m.Node)
		if _, known := s.revisions[key]; known {
			continue // a node of two members
		}
		s.revisions[key] = 0
		ops = append(ops, clientv3.OpGet(key))
	}
	if len(ops) == 0 {
		return nil
	}
	resp, err := client.Txn(ctx, nil, ops, nil)
	if err != nil {
		return fmt.Errorf("read the roles of the members: %w", err)
	}
	for i := range ops {
		nodes := etcd.NewListing(resp, i)
		for _, r := range fleet.Decode(keys, nodes, etcd.Listing{}).Records {
			s.revisions[keys.Node(r.ID)] = r.Revision
			s.lost[r.ID] = r.Problem == "" && !r.Node.Roles.Consensus
		}
	}
	return nil
}

// unchanged returns the conditions that no record of a member, and no node record of
// one, changed since s was read.
func (s *stored) unchanged(client *etcd.Client) []clientv3.Cmp {
	prefix := keyspace.Under(client.Prefix()).ClusterMembers()
	conds := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(prefix), "<", s.at+1).WithPrefix()} // also for records that are new
	for key, revision := range s.revisions {
		conds = append(conds, clientv3.Compare(clientv3.ModRevision(key), "=", revision))
	}
	return conds
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

// ReadRemovals returns the members that people removed.
func ReadRemovals(ctx context.Context, client *etcd.Client) ([]protocol.MemberRemoval, error) {
	prefix := keyspace.Under(client.Prefix()).RemovedMembers()
	resp, err := client.Txn(ctx, nil, []clientv3.Op{clientv3.OpGet(prefix, clientv3.WithPrefix())}, nil)
	if err != nil {
		return nil, fmt.Errorf("read the records of removed members: %w", err)
	}
	return members.Removals(etcd.NewListing(resp, 0)), nil
}

// write makes changes without a condition: they record changes of the members that
// are done already.
func write(ctx context.Context, client *etcd.Client, ops ...clientv3.Op) error {
	if _, err := client.Txn(ctx, nil, ops, nil); err != nil {
		return fmt.Errorf("write the records of the members: %w", err)
	}
	return nil
}
