package record

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// ErrCorrupt is returned for a value that does not fit its key.
var ErrCorrupt = errors.New("corrupt")

// EncodeCluster returns the value of keyspace's Cluster.
func EncodeCluster(c Cluster) []byte {
	return lockstepv1.Marshal(&lockstepv1.Cluster{
		Id: c.ID, EtcdClusterId: c.EtcdClusterID, CaHash: c.CA[:], CreatedAt: lockstepv1.FromTime(c.Created),
	})
}

// DecodeCluster is the inverse of EncodeCluster.
func DecodeCluster(value []byte) (Cluster, error) {
	var m lockstepv1.Cluster
	if err := proto.Unmarshal(value, &m); err != nil || m.GetId() == "" || len(m.GetCaHash()) != len(pki.Hash{}) {
		return Cluster{}, fmt.Errorf("the record of the cluster: %w", ErrCorrupt)
	}
	return Cluster{
		ID: m.GetId(), EtcdClusterID: m.GetEtcdClusterId(), CA: pki.Hash(m.GetCaHash()), Created: lockstepv1.ToTime(m.GetCreatedAt()),
	}, nil
}

// EncodeMember returns the value of keyspace's ClusterMember or RemovedMember.
func EncodeMember(m Member) []byte {
	return lockstepv1.Marshal(&lockstepv1.ClusterMember{
		Node: string(m.Node), Address: m.Address, PeerUrl: m.PeerURL, ClientUrl: m.ClientURL, JoinUrl: m.JoinURL,
		KeyHash: m.Key[:], CertificateSerial: m.Serial, AddedAt: lockstepv1.FromTime(m.Added),
		Leaving: m.Leaving, RemovedAt: lockstepv1.FromTime(m.Removed), RemovedBy: m.By,
	})
}

// DecodeMember is the inverse of EncodeMember. The key contains the ID. A member without a
// node is a learner that is evicted before its node wrote a record.
func DecodeMember(key string, value []byte) (Member, error) {
	var m lockstepv1.ClusterMember
	id := keyspace.MemberOf(key)
	err := proto.Unmarshal(value, &m)
	if err != nil || id == 0 || m.GetNode() == "" && !m.GetLeaving() || len(m.GetKeyHash()) != len(pki.Hash{}) {
		return Member{}, fmt.Errorf("the record %q of a member: %w", key, ErrCorrupt)
	}
	return Member{
		ID: id, Node: protocol.NodeID(m.GetNode()), Address: m.GetAddress(),
		PeerURL: m.GetPeerUrl(), ClientURL: m.GetClientUrl(), JoinURL: m.GetJoinUrl(),
		Key: pki.Hash(m.GetKeyHash()), Serial: m.GetCertificateSerial(),
		Added: lockstepv1.ToTime(m.GetAddedAt()), Leaving: m.GetLeaving(),
		Removed: lockstepv1.ToTime(m.GetRemovedAt()), By: m.GetRemovedBy(),
	}, nil
}

// EncodeLearner returns the value of keyspace's ClusterLearner. It is for people: the member is a learner
// because the key exists, with any value.
func EncodeLearner(m Member) []byte {
	return lockstepv1.Marshal(&lockstepv1.ClusterLearner{Node: string(m.Node), AddedAt: lockstepv1.FromTime(m.Added)})
}
