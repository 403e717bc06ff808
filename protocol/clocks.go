package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file compares the clocks of nodes (docs/protocol.md#clocks). No decision about gates or
// the leader compares two clocks: what is found here is for people.

const (
	// MaxClockDifference is how far the clocks of two nodes may differ without a warning.
	MaxClockDifference = 5 * time.Second
	// writeDelay bounds the time between reading the clock and the write of a presence, and
	// the time for which the answer of etcd that was read before it was on its way.
	writeDelay = 10 * time.Second
)

// ClockFacts are what a sidecar knows of a presence that another one wrote.
type ClockFacts struct {
	Written time.Time // by the clock of the other node, just before the write
	// NotBefore is the time at which etcd did not have it yet, and Seen when it was
	// observed, both by this node's clock. A zero NotBefore is unknown.
	NotBefore, Seen time.Time
}

// ClockOffset returns how far the clock of another node is ahead of this one's, negative if it is
// behind, if they differ for certain. A presence may have been observed long after it was written: that
// its time is in the future proves a difference, and that it is in the past does not.
func ClockOffset(f ClockFacts) (time.Duration, bool) {
	switch {
	case f.Written.IsZero():
		return 0, false
	case f.Written.Sub(f.Seen) >= MaxClockDifference:
	case !f.NotBefore.IsZero() && f.NotBefore.Sub(f.Written) >= MaxClockDifference+writeDelay:
	default:
		return 0, false
	}
	return f.Written.Sub(f.Seen), true
}

// ClockWarnings returns the warnings of a sidecar that has found how far other clocks are
// ahead of its own. Where two nodes would report the same, that with the lower ID does: the
// warnings of a presence are shown on every node.
func ClockWarnings(own NodeID, offsets map[NodeID]time.Duration, f Fleet) []Warning {
	var ids, ahead []NodeID
	for id, offset := range offsets {
		ids = append(ids, id)
		if offset > 0 {
			ahead = append(ahead, id)
		}
	}
	slices.Sort(ids)
	if len(ids) > 1 && (len(ahead) == 0 || len(ahead) == len(ids)) { // they agree: this node's clock is the odd one
		names := make([]string, 0, len(ids))
		for _, id := range ids {
			names = append(names, string(id))
		}
		return []Warning{clockWarning("", -offsets[ids[0]], "those of "+strings.Join(names, " and "))}
	}
	var out []Warning
	for _, id := range ids {
		if !reportsClock(own, id, f) {
			out = append(out, clockWarning(id, offsets[id], "that of "+string(own)))
		}
	}
	return out
}

func clockWarning(odd NodeID, offset time.Duration, than string) Warning {
	how := cmp.Or(map[bool]string{true: "ahead of"}[offset > 0], "behind")
	return Warning{Reason: ClocksDiffer, Subject: string(odd), Message: fmt.Sprintf(
		"its clock is about %s %s %s; the end of cordons and overrides, certificates, and times that people read depend on it: compare the clocks, and correct the wrong one",
		clockText(offset.Abs()), how, than)}
}

// reportsClock reports whether the presence of another node has what this node would report
// of the clock of node id: its own, or that of a node with a lower ID than this one's.
func reportsClock(own, id NodeID, f Fleet) bool {
	return slices.ContainsFunc(f.Records, func(r *Record) bool {
		return r.Alive && r.ID != own && slices.ContainsFunc(r.Presence.Warnings, func(w Warning) bool {
			switch {
			case w.Reason != ClocksDiffer:
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
	if rough := d.Round(MaxClockDifference); rough < time.Minute {
		return rough.String()
	}
	d = d.Round(time.Minute)
	if d < time.Hour {
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
}

// CordonOverWhenRead is the warning of a cordon that was over when the node's sidecar read it at a
// time of its clock.
func CordonOverWhenRead(c Cordon, read time.Time) Warning {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	return Warning{Reason: CordonOver, Since: read, Message: fmt.Sprintf(
		"a cordon had no effect: it was written at %s by the clock of the machine where it was typed, to last until %s, and was over when this node read it at %s by its own clock; "+
			"if its sidecar was not cut off from etcd meanwhile, compare the two clocks, and correct the wrong one; or type the cordon without --for",
		at(c.Since), at(c.Until), at(read))}
}
