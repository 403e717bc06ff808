package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// outage is a part of the time of an entry in which a node was out of service.
type outage struct {
	Entry
	Span
}

// incident is a time in which a node was out of service without a break, and the outages that say why: a gate closes, the sidecar ends,
// the next one starts.
type incident struct {
	Span
	outages []outage // by their beginning
}

// incidentsOf returns the known outages of a node, the newest last.
func incidentsOf(all []Entry, node protocol.NodeID) (out []incident) {
	var known []outage
	for _, e := range all {
		if e.Node != node || !OutOfService(e) {
			continue
		}
		for _, s := range e.stretches() {
			if !s.partly {
				known = append(known, outage{e, s.Span})
			}
		}
	}
	slices.SortStableFunc(known, func(a, b outage) int { return a.From.Compare(b.From) })
	for _, o := range known {
		if last := len(out) - 1; last >= 0 && (out[last].open() || !o.From.After(out[last].Until)) {
			out[last].outages = append(out[last].outages, o)
			if o.open() || !out[last].open() && o.Span.Until.After(out[last].Until) {
				out[last].Until = o.Span.Until
			}
			continue
		}
		out = append(out, incident{o.Span, []outage{o}})
	}
	return out
}

// length is how long it lasted until a time.
func (i incident) length(until time.Time) time.Duration {
	return max(0, i.end(until).Sub(i.From))
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

// best returns the outage that says best why a node was out of service at a time.
func (i incident) best(asked Asked) outage {
	return slices.MaxFunc(i.outages, func(a, b outage) int {
		in := func(o outage) int {
			if asked.overlaps(o.Span) {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(in(a), in(b)), cmp.Compare(a.reasons(), b.reasons()))
	})
}

// verdict describes an incident by the outage that says best why.
func (i incident) verdict(asked Asked) string {
	why := i.best(asked)
	text := "out of service " + i.lasts()
	if i.outages[0].Reason == protocol.NoPresence {
		text += " (it may have stopped up to one --lease-ttl before)"
	}
	text += fmt.Sprintf(": %s: %s", why.Reason, why.message())
	if why.Count > 1 {
		text += "; " + why.times()
	}
	return text
}

// parts describes each outage of an incident, if there are several. A message that the verdict has is left out.
func (i incident) parts(asked Asked) (out []string) {
	if len(i.outages) == 1 {
		return nil
	}
	why := i.best(asked)
	for _, o := range i.outages {
		text := fmt.Sprintf("%s: %s", o.lasts(), o.Reason)
		if o.about() != why.about() || o.Span != why.Span {
			text += ": " + o.message()
		}
		out = append(out, text)
	}
	return out
}

// lasts says when something began, and for how long it lasted.
func (s Span) lasts() string {
	if s.open() {
		return "from " + stamp(s.From) + " until now"
	}
	return "from " + stamp(s.From) + " for " + short(s.Until.Sub(s.From))
}

// message is what held in this part of the entry's time.
func (o outage) message() string { return o.during(o.Span) + o.named() }

// times says how often a node was out of service, of an entry that joins several outages.
func (e Entry) times() string {
	if e.Open() {
		return fmt.Sprintf("out of service %d times since %s%s", e.Count, stamp(e.Time), e.inAll())
	}
	return fmt.Sprintf("out of service %d times between %s and %s%s", e.Count, stamp(e.Time), stamp(e.Until), e.inAll())
}

// partlyOut describes the entries that join outages of which the history does not have all times, and one of which may touch that time.
func partlyOut(all []Entry, node protocol.NodeID, asked Asked) (out []string) {
	for _, e := range all {
		if e.Node != node || !OutOfService(e) {
			continue
		}
		for _, s := range e.stretches() {
			if s.partly && asked.overlaps(s.Span) {
				out = append(out, fmt.Sprintf("%s, and the history does not say when: %s: %s", e.times(), e.Reason, e.Message+e.laterParts()))
			}
		}
	}
	return out
}

// nearest describes the last outage before a time and the first one after it.
func nearest(all []incident, asked Asked) []string {
	before, after := "none is known", "none is known"
	for _, i := range all {
		switch text := i.verdict(Asked{i.From, i.From.Add(1)}); {
		case i.From.Before(asked.From):
			before = text
		case after == "none is known":
			after = text
		}
	}
	return []string{"before that: " + before, "after that: " + after}
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
