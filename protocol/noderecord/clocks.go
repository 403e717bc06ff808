package noderecord

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// This file compares the clocks of nodes (docs/protocol-nodes.md#clocks). No decision about gates or
// the leader compares two clocks: the results are for people.

const (
	// maxClockDifference is how far the clocks of two nodes may differ without a warning.
	maxClockDifference = 5 * time.Second
	// writeDelay bounds two times: from reading the clock to the write of a presence, and how
	// long etcd's previous answer was on its way.
	writeDelay = 10 * time.Second
)

// ClockFacts are the times of a presence that another sidecar wrote.
type ClockFacts struct {
	Written time.Time // by the clock of the other node, just before the write
	// NotBefore is a time at which it was not in etcd yet, and Seen is when it was
	// observed, both by this node's clock. A zero NotBefore is unknown.
	NotBefore, Seen time.Time
}

// ClockOffset returns how far another node's clock is ahead of this one's, negative if it is behind.
// It returns false unless they differ for certain. A time in the future proves a difference. A time in
// the past alone does not: a presence can be observed long after it was written.
func ClockOffset(f ClockFacts) (time.Duration, bool) {
	switch {
	case f.Written.IsZero():
		return 0, false
	case f.Written.Sub(f.Seen) >= maxClockDifference:
	case !f.NotBefore.IsZero() && f.NotBefore.Sub(f.Written) >= maxClockDifference+writeDelay:
	default:
		return 0, false
	}
	return f.Written.Sub(f.Seen), true
}

// ClockWarnings returns the warnings of a sidecar about other clocks. offsets is how far each
// is ahead of its own. Where two nodes would report the same, the one with the lower ID does:
// every node shows the warnings of all presences.
func ClockWarnings(own protocol.NodeID, offsets map[protocol.NodeID]time.Duration, f protocol.Fleet) []protocol.Warning {
	var ids, ahead []protocol.NodeID
	for id, offset := range offsets {
		ids = append(ids, id)
		if offset > 0 {
			ahead = append(ahead, id)
		}
	}
	slices.Sort(ids)
	if len(ids) > 1 && (len(ahead) == 0 || len(ahead) == len(ids)) { // they agree: this node's clock is the odd one
		return []protocol.Warning{clockWarning("", -offsets[ids[0]], "those of "+strings.Join(protocol.NodeNames(ids), " and "))}
	}
	var out []protocol.Warning
	for _, id := range ids {
		if !reportsClock(own, id, f) {
			out = append(out, clockWarning(id, offsets[id], "that of "+string(own)))
		}
	}
	return out
}

func clockWarning(odd protocol.NodeID, offset time.Duration, than string) protocol.Warning {
	how := cmp.Or(map[bool]string{true: "ahead of"}[offset > 0], "behind")
	return protocol.Warning{Reason: warn.ClocksDiffer, Subject: string(odd), Message: fmt.Sprintf(
		"its clock is about %s %s %s; the end of cordons and overrides, certificates, and times that people read depend on it: compare the clocks, and correct the wrong one",
		clockText(offset.Abs()), how, than)}
}

// reportsClock reports whether another node's presence already warns of the difference to the
// clock of node id: the presence of id itself, or of a node with a lower ID than own.
func reportsClock(own, id protocol.NodeID, f protocol.Fleet) bool {
	return slices.ContainsFunc(f.Records, func(r *protocol.Record) bool {
		return r.Alive && r.ID != own && slices.ContainsFunc(r.Presence.Warnings, func(w protocol.Warning) bool {
			switch {
			case w.Reason != warn.ClocksDiffer:
				return false
			case r.ID == id && w.Subject == string(own): // each finds the other
				return r.ID < own
			case r.ID == id:
				return w.Subject == ""
			}
			return r.ID < own && w.Subject == string(id)
		})
	})
}

// clockText rounds a difference, so that it is the same each time.
func clockText(d time.Duration) string {
	if rough := d.Round(maxClockDifference); rough < time.Minute {
		return rough.String()
	}
	d = d.Round(time.Minute)
	if d < time.Hour {
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
}

// CordonOverWhenRead warns of a cordon that was already over when the node's sidecar read it. read
// is by the sidecar's clock.
func CordonOverWhenRead(c protocol.Cordon, read time.Time) protocol.Warning {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	return protocol.Warning{Reason: warn.CordonOver, Since: read, Message: fmt.Sprintf(
		"a cordon had no effect: it was written at %s by the clock of the machine where it was typed, to last until %s, and was over when this node read it at %s by its own clock; "+
			"if its sidecar was not cut off from etcd meanwhile, compare the two clocks, and correct the wrong one; or type the cordon without --for",
		at(c.Since), at(c.Until), at(read))}
}
