package history

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// outage is a part of the time of an entry in which a node was out of service.
type outage struct {
	Entry
	stretch
}

// outageAt returns the outage that says best why a node was out of service at a time, or later in that minute; nil: it
// was in service.
func outageAt(all []Entry, node protocol.NodeID, at time.Time) (best *outage) {
	for _, e := range all {
		if e.Node != node || !OutOfService(e) {
			continue
		}
		for _, s := range e.stretches() {
			o := outage{e, s}
			if (asked{at, at}).overlaps(s.Span) && (best == nil || o.saysMore(*best, at)) {
				best = &o
			}
		}
	}
	return best
}

// saysMore reports whether o explains better than the other outage why a node was out of service at a time.
func (o outage) saysMore(than outage, at time.Time) bool {
	if a, b := o.fits(at), than.fits(at); a != b {
		return a > b
	}
	return o.reasons() > than.reasons()
}

// reasons is how much an outage says about its reason. A gate that people or a turn closed says why; while work goes on, the
// kube-apiserver is not ready either.
func (o outage) reasons() int {
	switch o.Kind { //nolint:exhaustive // all others are no outages
	case Gate:
		return 3
	case APIServer:
		return 2
	case Node:
		return 1
	}
	return 0
}

// fits is how well an outage answers a question about a moment: best, it is known to include it.
func (o outage) fits(at time.Time) int {
	out := 0
	if o.has(at) {
		out += 2
	}
	if !o.partly {
		out++
	}
	return out
}

// verdict describes an outage, and the others that the same entry joins.
func (o outage) verdict(at time.Time) string {
	if o.partly {
		return fmt.Sprintf("%s, and the history does not say when: %s: %s", o.times(), o.Reason, o.Message)
	}
	text := "out of service from " + stamp(o.From)
	switch {
	case o.open():
		text += " until now"
	default:
		text += " for " + short(o.Span.Until.Sub(o.From))
	}
	if o.Reason == protocol.NoPresence {
		text += " (it may have stopped up to one --lease-ttl before)"
	} else if o.From.After(at) {
		text = fmt.Sprintf("in service at %s, then %s", stamp(at), text)
	}
	if o.Count > 1 {
		return fmt.Sprintf("%s: %s: %s; %s", text, o.Reason, o.Message, o.times())
	}
	return fmt.Sprintf("%s: %s: %s", text, o.Reason, o.Sentence())
}

// times says how often a node was out of service, of an entry that joins several outages.
func (e Entry) times() string {
	if e.Open() {
		return fmt.Sprintf("out of service %d times since %s%s", e.Count, stamp(e.Time), e.inAll())
	}
	return fmt.Sprintf("out of service %d times between %s and %s%s", e.Count, stamp(e.Time), stamp(e.Until), e.inAll())
}

// between says that a node which served at a time was out of service shortly before and after it.
func between(all []Entry, node protocol.NodeID, at time.Time) (out string) {
	for _, e := range all {
		if e.Node == node && OutOfService(e) && e.Count > 1 && (Span{e.Time, e.Until}).has(at) {
			out += fmt.Sprintf("; %s: %s", e.times(), e.Reason)
		}
	}
	return out
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
