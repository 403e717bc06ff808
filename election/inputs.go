package election

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// gather reads every fact that a decision rests on: leadership, status, records
// and presences in one linearizable transaction (DESIGN 4.3, 4.6). It returns
// ErrLostLeadership where the key is no longer this leader's, and errWentBack
// where what was counted before may not be of the store that answered.
func (l *leadership) gather(ctx context.Context) (protocol.Input, error) {
	client := l.e.cfg.Client
	keys, rewinds := client.Keys, client.Rewound().Get()
	resp, err := client.Txn(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(l.key), "=", l.epoch)},
		[]clientv3.Op{
			clientv3.OpGet(keys.Status()),
			clientv3.OpGet(keys.Nodes(), clientv3.WithPrefix()),
			clientv3.OpGet(keys.Presences(), clientv3.WithPrefix()),
		}, nil)
	switch {
	case err != nil:
		return protocol.Input{}, fmt.Errorf("confirm leadership: %w", err)
	case !resp.Succeeded:
		return protocol.Input{}, ErrLostLeadership
	case client.Rewound().Get() != rewinds:
		return protocol.Input{}, errWentBack
	}
	records := fleet.Decode(keys, etcd.NewListing(resp, 1), etcd.NewListing(resp, 2))
	l.absences.count(records, rewinds, l.now, time.Now())
	local := l.e.cfg.Local.Get()
	local.Epoch = l.epoch
	return protocol.Input{
		Local:    local,
		Fleet:    records,
		Status:   statusOf(resp),
		Mark:     l.mark,
		Progress: l.progressNow(),
	}, nil
}

func statusOf(resp *clientv3.TxnResponse) protocol.StatusView {
	l := etcd.NewListing(resp, 0)
	if len(l.KVs) == 0 {
		return status.Decode(nil)
	}
	return status.Decode(&l.KVs[0])
}

// progressNow adds to the progress what the clock says.
func (l *leadership) progressNow() protocol.Progress {
	p := l.progress
	p.Due = !l.due.IsZero() && !l.now.Before(l.due)
	gone := l.goneAt()
	p.APIGone = !gone.IsZero() && !l.now.Before(gone)
	return p
}
