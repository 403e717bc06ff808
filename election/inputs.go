package election

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/protocol"
)

// gather collects every fact that a decision rests on. One transaction reads the
// snapshot and confirms the leadership (docs/protocol.md#snapshots). gather
// returns errLostLeadership if the key no longer belongs to this leader, and
// errWentBack if the store went back meanwhile: absences counted before that may
// belong to another history of the store.
func (l *leadership) gather(ctx context.Context) (protocol.Input, error) {
	client := l.e.cfg.Client
	rewinds := client.Rewound().Get()
	s, mine, err := readSnapshot(ctx, client, clientv3.Compare(clientv3.CreateRevision(l.key), "=", l.epoch))
	switch {
	case err != nil:
		return protocol.Input{}, fmt.Errorf("confirm leadership: %w", err)
	case !mine:
		return protocol.Input{}, errLostLeadership
	case client.Rewound().Get() != rewinds:
		return protocol.Input{}, errWentBack
	}
	l.absences.count(s.fleet, rewinds, l.clock.now, time.Now())
	local := l.e.cfg.Local.Get()
	local.Epoch = l.epoch
	return protocol.Input{
		Local:    local,
		Fleet:    s.fleet,
		Status:   s.status,
		Mark:     l.mark,
		Progress: l.progressNow(),
	}, nil
}

// progressNow adds to the progress what depends on the clock.
func (l *leadership) progressNow() protocol.Progress {
	p := l.progress
	p.Due = l.clock.passDue()
	p.APIGone = l.clock.unreachableTooLong(l.e.cfg.Applier.Answered())
	return p
}
