package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// Asked is the time that people ask about, such as a minute: from From until before To.
type Asked struct{ From, To time.Time }

func (a Asked) overlaps(s Span) bool {
	return s.From.Before(a.To) && (s.open() || !s.Until.Before(a.From))
}

func (a Asked) has(e Entry) bool {
	return slices.ContainsFunc(e.stretches(), func(s stretch) bool { return a.overlaps(s.Span) })
}

// Explanation reports why a node was or was not in service within a time, as far as the history shows.
type Explanation struct {
	Verdict string   // whether it served, for people
	Outages []string // if one line is not enough: each outage of that time; if there was none: the nearest ones
	Causes  []Entry  // trouble then and before an outage, which closes no gate by itself but may explain the rest; the likeliest first
	Node    []Entry  // about the node, around that time, the newest last
	Fleet   []Entry  // about the others
}

const (
	// aroundBefore and aroundAfter bound the time around an incident of which Explain lists all entries.
	aroundBefore = 5 * time.Minute
	aroundAfter  = time.Minute
	// maxTold bounds the outages that Explain lists.
	maxTold = 20
)

// Explain joins what happened on a node and in the fleet around a time.
func Explain(all []Entry, node protocol.NodeID, asked Asked) Explanation {
	var out Explanation
	incidents := incidentsOf(all, node)
	touching := slices.DeleteFunc(slices.Clone(incidents), func(i incident) bool { return !asked.overlaps(i.Span) })
	out.Causes = causesOf(all, node, asked, touching)
	from := asked.From
	if len(touching) > 0 && touching[0].From.Before(from) {
		from = touching[0].From
	}
	for _, e := range all {
		switch {
		case e.Time.After(asked.To.Add(aroundAfter)) || !e.Open() && e.Until.Before(from.Add(-aroundBefore)):
		case e.Concerns(node):
			out.Node = append(out.Node, e)
		default:
			out.Fleet = append(out.Fleet, e)
		}
	}
	switch began := beginOf(all, node); {
	case began.IsZero():
		out.Verdict = "the history has nothing about this node"
		return out
	case !asked.To.After(began):
		out.Verdict = "nothing is known of this node before " + stamp(began) + ", where its history begins"
	default:
		out.tell(touching, partlyOut(all, node, asked), asked)
		if asked.From.Before(began) {
			out.Verdict += "; nothing is known before " + stamp(began)
		}
	}
	if len(touching) == 0 {
		out.Outages = append(out.Outages, nearest(incidents, asked)...)
	}
	return out
}

// tell writes the verdict, and the outages of that time if one line is not enough. The history does not say when the unknown ones were.
func (x *Explanation) tell(touching []incident, unknown []string, asked Asked) {
	switch len(touching) {
	case 0:
		x.Verdict = "it was in service, as far as the history shows" + servicesDown(x.Causes, asked)
		if len(unknown) > 0 {
			x.Verdict, unknown = unknown[0], unknown[1:]
		}
	case 1:
		x.Verdict, x.Outages = touching[0].verdict(asked), touching[0].parts(asked)
	default:
		var total time.Duration
		for _, i := range touching {
			total += i.length(asked.To)
			x.Outages = append(x.Outages, i.verdict(asked))
		}
		x.Verdict = fmt.Sprintf("out of service %d times, %s in all", len(touching), short(total))
	}
	x.Outages = append(x.Outages, unknown...)
	if more := len(x.Outages) - maxTold; more > 0 {
		x.Outages = append(x.Outages[:maxTold:maxTold], fmt.Sprintf("and %d more: ask for a shorter time", more))
	}
}

// beginOf returns when the history of a node begins; zero: it has none.
func beginOf(all []Entry, node protocol.NodeID) (out time.Time) {
	for _, e := range all {
		if e.Node == node && (out.IsZero() || e.Time.Before(out)) {
			out = e.Time
		}
	}
	return out
}

// servicesDown adds the trouble of services on a node whose gate was open.
func servicesDown(found []Entry, asked Asked) (out string) {
	for _, e := range found {
		if e.Kind == Service && asked.has(e) && e.Reason != warn.ServicesRejected { // those that run stay in use
			out += "; meanwhile: " + e.Sentence()
		}
	}
	return out
}
