package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Explanation reports why a node was or was not in service at a time, as far as the history shows.
type Explanation struct {
	Verdict string  // whether it served, for people
	Causes  []Entry // trouble in that minute and before an outage, which closes no gate by itself but may explain the rest
	Node    []Entry // about the node, around that time, the newest last
	Fleet   []Entry // about the others
}

const (
	// aroundBefore and aroundAfter bound the time around an incident of which Explain lists all entries.
	aroundBefore = 5 * time.Minute
	aroundAfter  = time.Minute
	// causesBefore is for how long before an outage Explain looks for causes.
	causesBefore = 30 * time.Second
	// slowBefore is for how long before etcd failed Explain looks for slow disks.
	slowBefore = 10 * time.Minute
)

// Explain joins what happened on a node and in the fleet around a time.
func Explain(all []Entry, node protocol.NodeID, at time.Time) Explanation {
	var out Explanation
	closed := outageAt(all, node, at)
	during := asked{at, at}
	if closed != nil && closed.From.Add(-causesBefore).Before(at) {
		during.from = closed.From.Add(-causesBefore)
	}
	out.Causes = slices.DeleteFunc(causesOf(all, node, during), func(e Entry) bool {
		return closed != nil && e.Kind == Warning && e.Node == node && e.Reason == closed.Reason // the outage itself
	})
	for _, e := range all {
		switch {
		case e.Time.After(at.Add(aroundAfter)) || !e.Open() && e.Until.Before(at.Add(-aroundBefore)):
		case e.Concerns(node):
			out.Node = append(out.Node, e)
		default:
			out.Fleet = append(out.Fleet, e)
		}
	}
	switch {
	case !slices.ContainsFunc(all, func(e Entry) bool { return e.Node == node }):
		out.Verdict = "the history has nothing about this node"
	case closed == nil:
		out.Verdict = "it was in service, as far as the history shows" + between(all, node, at) + servicesDown(out.Causes)
	default:
		out.Verdict = closed.verdict(at)
	}
	return out
}

// causesOf returns the trouble of a node within a time. A disk that was slow minutes before etcd failed may be the cause of
// that, although the warning ended.
func causesOf(all []Entry, node protocol.NodeID, during asked) (out []Entry) {
	slow := during
	for _, e := range all {
		if e.Node == node && during.has(e) && etcdFails(e) && e.Time.Add(-slowBefore).Before(slow.from) {
			slow.from = e.Time.Add(-slowBefore)
		}
	}
	for _, e := range all {
		within := during
		if e.Reason == protocol.DiskSlow {
			within = slow
		}
		if within.has(e) && trouble(e) && (e.Node == node || ofEtcd(e)) {
			out = append(out, e)
		}
	}
	return out
}

// etcdFails reports whether a node reports that etcd, or its member, does not serve.
func etcdFails(e Entry) bool {
	return e.Kind == Etcd || e.Kind == Warning && e.Reason == protocol.MemberDown
}

// servicesDown adds the trouble of services on a node whose gate was open.
func servicesDown(found []Entry) (out string) {
	for _, e := range found {
		if e.Kind == Service && e.Reason != protocol.ServicesRejected { // those that run stay in use
			out += "; meanwhile: " + e.Sentence()
		}
	}
	return out
}

// asked is the time that people mean: "at 14:02" is all of that minute. It begins earlier for the causes of an outage.
type asked struct{ from, at time.Time }

func (a asked) overlaps(s Span) bool {
	return s.From.Before(a.at.Add(time.Minute)) && (s.open() || !s.Until.Before(a.from))
}

func (a asked) has(e Entry) bool {
	return slices.ContainsFunc(e.stretches(), func(s stretch) bool { return a.overlaps(s.Span) })
}

// trouble reports whether clients may notice an entry about a node although its gate stays open, or it is the cause
// of a closed one.
func trouble(e Entry) bool {
	switch e.Kind {
	case Service, Etcd, Turn:
		return true
	case Warning:
		return e.Subject == "" || e.Subject == string(e.Node) // nodes also warn of others
	case Gate, APIServer, Sidecar, Node, Object, Bundle, Override, Cordon, Leader, Status, Blocked, Upgrade, Rollback, Member, Store:
	}
	return false
}

// ofEtcd reports whether trouble of one node is that of all: each request of each kube-apiserver may wait for a member of
// etcd with a slow disk.
func ofEtcd(e Entry) bool {
	slow := []protocol.Reason{protocol.DiskSlow, protocol.EtcdLeaderChanges, protocol.EtcdFull}
	return e.Kind == Warning && slices.Contains(slow, e.Reason)
}

// Cause describes an entry in the Causes of a node, for people.
func Cause(e Entry, of protocol.NodeID) string {
	text := e.Sentence()
	if e.Node != of {
		text = string(e.Node) + ": " + text
	}
	span := "from " + stamp(e.Time)
	switch {
	case e.Open():
		span += " until now"
	case e.Until.After(e.Time) && e.Count > 1:
		span = fmt.Sprintf("between %s and %s", stamp(e.Time), stamp(e.Until))
	case e.Until.After(e.Time):
		span += " for " + short(e.Until.Sub(e.Time))
	default:
		span = "at " + stamp(e.Time)
	}
	return fmt.Sprintf("%s: %s: %s", span, e.Reason, text)
}
