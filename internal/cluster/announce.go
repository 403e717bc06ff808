package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// announcer keeps the record of this node's member in etcd true: the other nodes find it by that.
// The sidecar that answered a join has written it first.
type announcer struct {
	*resident
	cfg    *Embedded
	client *etcd.Client
	log    *slog.Logger
}

// announce makes one attempt to write the record, if it is missing or not true any more.
func (a *announcer) announce(ctx context.Context) error {
	_, err := a.write(ctx, func(bool) bool { return true })
	return err
}

// renewed writes the serial of a renewed certificate into the record of this
// member, and tries until it is there. A record that is missing stays so: the cluster has
// removed the member.
func (a *announcer) renewed(ctx context.Context) {
	pauses := backoff.Backoff{First: firstPause, Max: maxPause, Jitter: 0.2}
	for {
		written, err := a.write(ctx, func(exists bool) bool { return exists })
		if written {
			a.log.Info("the cluster's record of this member has the serial of the renewed certificate")
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		a.log.Debug("record of this member not written, trying again", "err", err)
		if !pauses.Sleep(ctx) {
			return
		}
	}
}

// write makes one attempt to write the record of this member, if it is missing
// or differs from own. It does so only if due returns true; exists reports
// whether etcd contains a record.
func (a *announcer) write(ctx context.Context, due func(exists bool) bool) (written bool, err error) {
	want, err := a.own()
	if err != nil || want.ID == 0 {
		return false, err // without a member there is no record
	}
	key := keyspace.Under(a.client.Prefix()).ClusterMember(want.ID)
	resp, err := a.client.Get(ctx, key)
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
	_, err = a.client.Write(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", revision)},
		clientv3.OpPut(key, string(record.EncodeMember(want))))
	if err != nil {
		return false, transient(fmt.Errorf("write the record of this member: %w", err))
	}
	return true, nil
}

// own is the record that this member needs. Its ID is 0 without a member. It reads
// only what no step changes.
func (a *announcer) own() (record.Member, error) {
	cert, err := pki.ReadCertificate(a.dir.PKI())
	if err != nil {
		return record.Member{}, err
	}
	self := datadir.Marker{
		Node: a.cfg.Node, Address: a.cfg.Address, PeerPort: a.cfg.PeerPort, ClientPort: a.cfg.ClientPort, JoinPort: a.cfg.JoinPort,
	}
	var id uint64
	if run := a.current(); run != nil {
		id = run.ids().member
	}
	return quorum.NewMember(id, self, cert), nil
}
