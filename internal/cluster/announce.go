package cluster

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// announce keeps the record of this member in etcd true: the other nodes find it by
// that. The sidecar that answered a join has written it first.
func announce(ctx context.Context, f *flow) error {
	_, err := f.writeMember(ctx, func(bool) bool { return true })
	return err
}

// announceRenewed writes the serial of a renewed certificate into the record of this
// member, and tries until it is there. A record that is missing stays so: the cluster has
// removed the member.
func (f *flow) announceRenewed(ctx context.Context) {
	pauses := backoff.Backoff{First: firstPause, Max: maxPause, Jitter: 0.2}
	for {
		written, err := f.writeMember(ctx, func(exists bool) bool { return exists })
		if written {
			f.log.Info("the cluster's record of this member has the serial of the renewed certificate")
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		f.log.Debug("record of this member not written, trying again", "err", err)
		if !pauses.Sleep(ctx) {
			return
		}
	}
}

// writeMember makes one attempt to write the record of this member, if it is missing
// or differs from ownMember. It does so only if due returns true; exists reports
// whether etcd contains a record.
func (f *flow) writeMember(ctx context.Context, due func(exists bool) bool) (written bool, err error) {
	want, err := f.ownMember()
	if err != nil || want.ID == 0 {
		return false, err // without a member there is no record
	}
	key := keyspace.Under(f.client.Prefix()).ClusterMember(want.ID)
	resp, err := f.client.Get(ctx, key)
	if err != nil {
		return false, transient(err)
	}
	if !due(len(resp.Kvs) > 0) {
		return false, nil
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
			return false, nil
		}
	}
	_, err = f.client.Write(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", revision)},
		clientv3.OpPut(key, string(record.EncodeMember(want))))
	if err != nil {
		return false, transient(fmt.Errorf("write the record of this member: %w", err))
	}
	return true, nil
}

// ownMember is the record that this member needs. Its ID is 0 without a member. It reads
// only what no step changes.
func (f *flow) ownMember() (record.Member, error) {
	cert, err := pki.ReadCertificate(f.dir.PKI())
	if err != nil {
		return record.Member{}, err
	}
	self := datadir.Marker{
		Node: f.cfg.Node, Address: f.cfg.Address, PeerPort: f.cfg.PeerPort, ClientPort: f.cfg.ClientPort, JoinPort: f.cfg.JoinPort,
	}
	var id uint64
	if run := f.current(); run != nil {
		id = run.ids().member
	}
	return quorum.NewMember(id, self, cert), nil
}
