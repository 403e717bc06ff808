package election

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// giveUpLimit bounds the transaction that gives up a leadership. If it is not
// answered, the lease goes, and the next leader waits.
const giveUpLimit = time.Second

// unsure is a job of this leader that ended with a request of unknown outcome.
type unsure struct {
	content protocol.Content
	until   time.Time // from then on it cannot land any more
}

// noteUnsure remembers that a job left a request behind, which it gave up at.
func (l *leadership) noteUnsure(c protocol.Content, at time.Time) {
	now := time.Now()
	l.unsure = slices.DeleteFunc(l.unsure, func(u unsure) bool { return !now.Before(u.until) })
	l.unsure = append(l.unsure, unsure{content: c, until: at.Add(l.e.cfg.DrainTime)})
}

// quiet is the instant from which on no request of a former leader, and no own
// one of other content, can land in the API; zero: none can (DESIGN 6.4).
// Clocks of others are not asked: it counts from the own confirmation, when
// their leases were over.
func (l *leadership) quiet(c protocol.Content) time.Time {
	var at time.Time
	if l.progress.Past != protocol.PastDrained {
		at = l.confirmed.Add(l.e.cfg.DrainTime)
	}
	for _, u := range l.unsure {
		if u.content != c && u.until.After(at) {
			at = u.until
		}
	}
	return at
}

// giveUp gives up the key of a leader that steps down in good order. If nothing
// of it or of former leaders can land any more, the same transaction tells the
// next one that it need not wait.
func (l *leadership) giveUp(ctx context.Context) {
	client := l.e.cfg.Client
	if l.confirmed.IsZero() || !l.session.Valid() || !client.Contact().Get().Connected {
		return // others have to wait, and do
	}
	// It has to run after ctx has ended, too.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpLimit)
	defer cancel()
	err := l.farewell(clean)
	if errors.Is(err, status.ErrGuard) {
		// The status is another by now; or the key is gone, and this finds out.
		if in, again := l.gather(clean); again == nil {
			l.status = in.Status
			err = l.farewell(clean)
		}
	}
	if err != nil {
		l.e.cfg.Log.Info("leadership ends with its lease, the next leader may have to wait", "err", err)
	}
}

func (l *leadership) farewell(ctx context.Context) error {
	now := time.Now()
	st, drained := protocol.Drain(protocol.Farewell{
		Status: l.status, Leader: l.e.cfg.Local.Get().ID, Epoch: l.epoch, Past: l.progress.Past,
		Waited: !now.Before(l.confirmed.Add(l.e.cfg.DrainTime)), Ended: l.ownEnded(now),
	})
	if !drained {
		return nil
	}
	return l.e.cfg.Store.Resign(ctx, l.key, st, protocol.Guard{Epoch: l.epoch, StatusRevision: l.status.Revision})
}

// ownEnded reports whether no request of this leader can land any more.
func (l *leadership) ownEnded(now time.Time) bool {
	for _, u := range l.unsure {
		if now.Before(u.until) {
			return false
		}
	}
	return true
}
