package warn

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// OfWork returns the warnings of work that people began: of turns that failed or are over their limit, as the
// turn is kept and no other node gets one, and of a rollback that ends soon by its time.
func OfWork(f protocol.Fleet, now time.Time) []protocol.Warning {
	return append(turnWarnings(f, now), rollbackEnding(f, now)...)
}

// NextOfWork returns when the passage of time adds a warning to OfWork next; zero: never.
func NextOfWork(f protocol.Fleet, now time.Time) time.Time {
	var next time.Time
	earlier := func(at time.Time) {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, t := range f.Turns.Held {
		earlier(t.Until)
	}
	if f.Rollback.On() {
		earlier(noticeAt(f.Rollback))
	}
	return next
}

func turnWarnings(f protocol.Fleet, now time.Time) []protocol.Warning {
	var out []protocol.Warning
	for _, t := range f.Turns.Held {
		switch {
		case t.Overdue(now):
			out = append(out, protocol.Warning{Reason: TurnOverdue, Subject: string(t.Node), Since: t.Until, Message: fmt.Sprintf(
				"%s; it is over its limit since %s, and no other node gets a turn; %s", f.TurnText(t), t.Until.UTC().Format(time.RFC3339), f.TurnRemedy(t))})
		case t.Work.HasFailed():
			out = append(out, protocol.Warning{Reason: TurnFailed, Subject: string(t.Node), Message: fmt.Sprintf(
				"%s, and no other node gets a turn; %s", f.TurnText(t), f.TurnRemedy(t))})
		}
	}
	return out
}

// rollbackNotice is how long before its end people are warned.
const rollbackNotice = time.Hour

// noticeAt is when people are warned that the rollback ends by its time: an hour
// before, or a quarter of its time if that is less.
func noticeAt(r protocol.Rollback) time.Time {
	return r.Until.Add(-min(rollbackNotice, max(0, r.Until.Sub(r.Since)/4)))
}

// rollbackEnding warns that the rollback ends by its time, and of the consequence.
func rollbackEnding(f protocol.Fleet, now time.Time) []protocol.Warning {
	r := f.Rollback
	if !r.On() || now.Before(noticeAt(r)) {
		return nil
	}
	follows := "nothing has to follow"
	if newer := f.NewerControllers(r.To); len(newer) > 0 {
		follows = fmt.Sprintf("then a node of a newer release (%s) leads, and brings its own objects again", protocol.RecordNames(newer))
	}
	return []protocol.Warning{{Reason: RollbackEnds, Message: fmt.Sprintf("%s ends soon: %s; to go on longer: sidecar rollback begin --to %s --for 24h", r, follows, r.To)}}
}
