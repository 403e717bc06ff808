package cluster

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/cluster/pki"
	"github.com/lockstep-dev/lockstep/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// announce keeps the record of this member in etcd true: the other nodes find it by
// that. The sidecar that answered a join has written it first.
func announce(ctx context.Context, f *flow) error {
	want, err := f.ownMember()
	if err != nil {
		return err
	}
	key := keyspace.Under(f.client.Prefix()).ClusterMember(want.ID)
	resp, err := f.client.Get(ctx, key)
	if err != nil {
		return transient(err)
	}
	var revision int64
	want.Added = time.Now()
	if len(resp.Kvs) > 0 {
		revision = resp.Kvs[0].ModRevision
		has, err := record.DecodeMember(key, resp.Kvs[0].Value)
		if err == nil {
			want.Added, want.Leaving = has.Added, has.Leaving
		}
		if err == nil && has == want {
			return nil
		}
	}
	_, err = f.client.Write(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", revision)},
		clientv3.OpPut(key, string(record.EncodeMember(want))))
	if err != nil {
		return transient(fmt.Errorf("write the record of this member: %w", err))
	}
	return nil
}

// ownMember is the record of this member as it has to be.
func (f *flow) ownMember() (record.Member, error) {
	cert, err := pki.ReadCertificate(f.dir.PKI())
	if err != nil {
		return record.Member{}, err
	}
	return record.Member{
		ID: f.member.ids().member, Node: protocol.NodeID(f.marker.Node), Address: f.marker.Address,
		PeerURL: f.marker.PeerURL(), ClientURL: f.marker.ClientURL(),
		JoinURL: "https://" + net.JoinHostPort(f.marker.Address, strconv.Itoa(f.cfg.JoinPort)),
		Key:     record.Hash(pki.HashOf(cert)), Serial: cert.SerialNumber.Text(16),
	}, nil
}
