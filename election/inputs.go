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
// errWentBack if the store went back since the leadership began: this leader's
// counts and its work belong to another history of the store.
func (l *leadership) gather(ctx context.Context) (protocol.Input, error) {
	client := l.e.cfg.Client
	s, mine, err := readSnapshot(ctx, client, &l.decoder, clientv3.Compare(clientv3.CreateRevision(l.key), "=", l.epoch))
	switch {
	case err != nil:
		return protocol.Input{}, fmt.Errorf("confirm leadership: %w", err)
	case client.Rewound().Get() != l.rewinds:
		return protocol.Input{}, errWentBack
	case !mine:
		return protocol.Input{}, errLostLeadership
	}
	l.unknown = s.unknown
	l.absences.count(s.fleet, l.rewinds, l.clock.now, time.Now())
	s.fleet = l.absences.restarts(s.fleet, l.e.cfg.Missing, l.clock.now)
	local := l.e.cfg.Local.Get()
	local.Epoch = l.epoch
	return protocol.Input{
		Local:    local,
		Fleet:    s.fleet,
		Status:   s.status,
		Store:    s.store,
		Mark:     l.mark,
		Progress: l.progressNow(),

		Replacement: s.replacement,
	}, nil
}

// progressNow adds the facts that depend on the clock to the progress.
func (l *leadership) progressNow() protocol.Progress {
	p := l.progress
	p.Due = l.clock.passDue()
	p.APIGone = l.clock.unreachableTooLong(l.e.cfg.Applier.Answered())
	return p
}
