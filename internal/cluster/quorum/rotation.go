package quorum

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// This file reads the replacement of the cluster's CA, and begins and changes it
// (docs/protocol-membership.md#rotation).

// Rotation is the replacement of the CA, with the nodes that take part.
type Rotation struct {
	record.Rotation
	Facts membership.RotationFacts
	// Members contains the nodes that are members; any other node has a node record only.
	Members map[protocol.NodeID]bool

	cluster *record.Cluster
}

// Step returns the next step.
func (r Rotation) Step() membership.RotationStep { return membership.NextRotationStep(r.Facts) }

// ReadRotation returns the record of the replacement alone. Its zero value: there never was one.
func ReadRotation(ctx context.Context, client *etcd.Client) (record.Rotation, error) {
	resp, err := client.Get(ctx, keyspace.Under(client.Prefix()).Rotation())
	if err != nil || len(resp.Kvs) == 0 {
		return record.Rotation{}, err
	}
	return decodeRotation(etcd.NewKV(resp.Kvs[0]))
}

func decodeRotation(kv etcd.KV) (record.Rotation, error) {
	r, err := record.DecodeRotation(kv.Value)
	if err != nil {
		// Only its earlier revision shows its content. To delete it during a replacement would leave nodes that trust
		// different CAs.
		return record.Rotation{}, fmt.Errorf("%w: a client of etcd wrote the key %s at revision %d, and until that is repaired no CA is replaced and no node joins; "+
			"type: etcdctl get %[2]s --rev=%[4]d, and write what it had with etcdctl put; if it had nothing, or the phase Ended, type: etcdctl del %[2]s (docs/clusters.md#replace-the-ca)",
			err, kv.Key, kv.ModRevision, kv.ModRevision-1)
	}
	r.Revision = kv.ModRevision
	return r, nil
}

// ReadParticipants returns the replacement, and asks all members how they are.
func ReadParticipants(ctx context.Context, client *etcd.Client) (Rotation, error) {
	listed, s, err := listMore(ctx, client, func(*stored) error { return nil })
	if err != nil {
		return Rotation{}, err
	}
	if s.cluster == nil {
		return Rotation{}, ErrNoCluster
	}
	keys := keyspace.Under(client.Prefix())
	resp, err := client.Txn(ctx, nil, []clientv3.Op{
		clientv3.OpGet(keys.Nodes(), clientv3.WithPrefix(), clientv3.WithKeysOnly()),
		clientv3.OpGet(keys.Presences(), clientv3.WithPrefix(), clientv3.WithKeysOnly()),
	}, nil)
	if err != nil {
		return Rotation{}, fmt.Errorf("read the nodes: %w", err)
	}
	alive := map[protocol.NodeID]bool{}
	for _, kv := range etcd.NewListing(resp, 1).KVs {
		alive[keys.NodeOf(kv.Key)] = true
	}
	out := Rotation{Rotation: s.rotation, Members: map[protocol.NodeID]bool{}, cluster: s.cluster}
	out.Facts = membership.RotationFacts{Phase: s.rotation.Phase, Turn: s.rotation.Turn, Given: s.rotation.Given}
	for _, v := range listed {
		node := v.Node
		if node == "" { // it never reported its node ID
			node = protocol.NodeID(keyspace.MemberID(v.ID))
		}
		out.Members[node] = true
		is := membership.RotationNode{ID: node, Voter: !v.Learner, Healthy: v.Healthy, Alive: alive[node]}
		out.Facts.Nodes = append(out.Facts.Nodes, s.participant(is))
	}
	for _, kv := range etcd.NewListing(resp, 0).KVs {
		node := keys.NodeOf(kv.Key)
		if out.Members[node] || s.wasRemoved(node) && !alive[node] {
			continue
		}
		out.Facts.Nodes = append(out.Facts.Nodes, s.participant(membership.RotationNode{ID: node, Alive: alive[node]}))
	}
	sorting.By(out.Facts.Nodes, func(a, b membership.RotationNode) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out, nil
}

// participant adds the report of a node about this new CA. A node without one trusts the old CA.
func (s *stored) participant(n membership.RotationNode) membership.RotationNode {
	r, reported := s.reports[n.ID]
	if !reported || r.CA != s.rotation.Hash {
		n.TrustsOld = true
		return n
	}
	n.TrustsNew, n.TrustsOld, n.HasKey, n.UsesNew = r.TrustsNew, r.TrustsOld, r.HasKey, r.UsesNew
	return n
}

func (s *stored) wasRemoved(node protocol.NodeID) bool {
	return slices.ContainsFunc(s.removed, func(m record.Member) bool { return m.Node == node })
}

// StartRotation begins to replace the CA, and reports whether another command began before. No
// node is added meanwhile.
func StartRotation(ctx context.Context, client *etcd.Client) (already bool, err error) {
	err = locked(ctx, client, "sidecar cluster rotate-ca", func(ctx context.Context) error {
		was, err := ReadRotation(ctx, client)
		if err != nil {
			return err
		}
		if already = was.Active(); already {
			return nil
		}
		now := time.Now()
		return WriteRotation(ctx, client, was.Revision, record.Rotation{Phase: membership.RotationRequested, Started: now, Since: now})
	})
	return already, err
}

// WriteRotation writes the record, with other changes, if it did not change since it was read.
func WriteRotation(ctx context.Context, client *etcd.Client, was int64, r record.Rotation, more ...clientv3.Op) error {
	key := keyspace.Under(client.Prefix()).Rotation()
	_, err := client.Write(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", was)},
		append(more, clientv3.OpPut(key, string(record.EncodeRotation(r))))...)
	if err != nil {
		return fmt.Errorf("write the record of the rotation of the CA: %w", err)
	}
	return nil
}

// EndRotation makes the new CA the cluster's CA in the record. It deletes the tokens: they contain the
// hash of the old one.
func EndRotation(ctx context.Context, client *etcd.Client, r Rotation) error {
	keys := keyspace.Under(client.Prefix())
	cluster := *r.cluster
	cluster.CA = r.Hash
	ended := record.Rotation{Started: r.Started, Since: time.Now(), Hash: r.Hash, Lost: membership.LostKeys(r.Facts)}
	return WriteRotation(ctx, client, r.Revision, ended,
		clientv3.OpPut(keys.Cluster(), string(record.EncodeCluster(cluster))),
		clientv3.OpDelete(keys.JoinTokens(), clientv3.WithPrefix()),
		clientv3.OpDelete(keys.RotationReports(), clientv3.WithPrefix()))
}

// WriteRotationReport writes the report of a node about itself.
func WriteRotationReport(ctx context.Context, client *etcd.Client, r record.RotationReport) error {
	key := keyspace.Under(client.Prefix()).RotationReport(r.Node)
	if _, err := client.Txn(ctx, nil, []clientv3.Op{clientv3.OpPut(key, string(record.EncodeRotationReport(r)))}, nil); err != nil {
		return fmt.Errorf("report to the rotation of the CA: %w", err)
	}
	return nil
}

// NotRotating returns ErrRotating while the CA is replaced.
func NotRotating(ctx context.Context, client *etcd.Client) error {
	r, err := ReadRotation(ctx, client)
	if err == nil && r.Active() {
		err = ErrRotating
	}
	return err
}

// MayHaveNextKey reports whether a voter may have the key of the CA that replaces the present one.
func MayHaveNextKey(r record.Rotation, node protocol.NodeID) bool {
	return r.Active() && slices.Contains(r.Given, node)
}
