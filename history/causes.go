package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

const (
	// causesBefore is for how long before an outage Explain looks for causes.
	causesBefore = 30 * time.Second
	// noticedIn is for how long a gate may be open after the trouble that closes it.
	noticedIn = 5 * time.Second
	// causesIn is for how long Explain looks for trouble of a node that served, since people name a second and mean about then, and
	// after the time that they ask about while an outage goes on.
	causesIn = time.Minute
	// slowBefore is for how long before etcd failed Explain looks for slow disks.
	slowBefore = 10 * time.Minute
)

// causesOf returns the trouble of a node within a time and before its outages, the likeliest first. A disk that was slow minutes
// before etcd failed may be the cause of that, although the warning ended.
func causesOf(all []Entry, node protocol.NodeID, asked Asked, out []incident) (causes []Entry) {
	during := asked
	if len(out) == 0 && during.To.Before(during.From.Add(causesIn)) {
		during.To = during.From.Add(causesIn)
	}
	for _, i := range out {
		if before := i.From.Add(-causesBefore); before.Before(during.From) {
			during.From = before
		}
		if i.open() || i.Until.After(asked.To) { // a cause may be known later, as of a command that was killed
			during.To = asked.To.Add(min(causesIn, i.length(asked.To.Add(causesIn))-asked.To.Sub(i.From)))
		}
	}
	slow := during
	for _, e := range all {
		if e.Node == node && during.has(e) && etcdFails(e) && e.Time.Add(-slowBefore).Before(slow.From) {
			slow.From = e.Time.Add(-slowBefore)
		}
	}
	for _, e := range all {
		within := during
		if e.Reason == warn.DiskSlow {
			within = slow
		}
		if within.has(e) && trouble(e) && (e.Node == node || ofEtcd(e)) && !isSymptom(e, node, out) {
			causes = append(causes, e)
		}
	}
	slices.SortStableFunc(causes, func(a, b Entry) int {
		return cmp.Compare(distance(a, node, asked, out), distance(b, node, asked, out))
	})
	return causes
}

// isSymptom reports whether an entry is the warning about an outage, and no cause of it.
func isSymptom(e Entry, node protocol.NodeID, out []incident) bool {
	return e.Kind == Warning && e.Node == node && slices.ContainsFunc(out, func(i incident) bool {
		return slices.ContainsFunc(i.outages, func(o outage) bool { return o.Reason == e.Reason })
	})
}

// distance is how far an entry is from being the cause of an outage; entries of one distance stay in the order of their times.
func distance(e Entry, node protocol.NodeID, asked Asked, out []incident) int {
	with := asked.has(e)
	for _, i := range out {
		with = with || Asked{i.From.Add(-noticedIn), i.From.Add(i.length(asked.To))}.has(e)
	}
	switch {
	case e.Node != node:
		return 3
	case with && closesGates(e):
		return 0
	case with:
		return 1
	}
	return 2
}

// closesGates reports whether trouble of a node by its nature takes the node out of service.
func closesGates(e Entry) bool {
	switch e.Kind { //nolint:exhaustive // all others do not
	case Turn, Etcd:
		return true
	case Service:
		return e.Reason != warn.OptionalServiceFailing && e.Reason != warn.ServicesRejected
	case Warning:
		return slices.Contains([]protocol.Reason{
			warn.DiskSlow, warn.EtcdFull, warn.MemberDown, protocol.DuplicateNodeID, protocol.OtherAPIServer,
		}, e.Reason)
	}
	return false
}

// etcdFails reports whether a node reports that etcd, or its member, does not serve.
func etcdFails(e Entry) bool {
	return e.Kind == Etcd || e.Kind == Warning && e.Reason == warn.MemberDown
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
	slow := []protocol.Reason{warn.DiskSlow, warn.EtcdLeaderChanges, warn.EtcdFull}
	return e.Kind == Warning && slices.Contains(slow, e.Reason)
}

// Cause describes an entry in the Causes of a node, for people.
func Cause(e Entry, of protocol.NodeID) string {
	text := e.Sentence()
	if e.Node != of {
		text = string(e.Node) + ": " + text
	}
	span := e.whole().lasts()
	switch {
	case e.Open():
	case e.Until.After(e.Time) && e.Count > 1:
		span = fmt.Sprintf("between %s and %s", stamp(e.Time), stamp(e.Until))
	case !e.Until.After(e.Time):
		span = "at " + stamp(e.Time)
	}
	return fmt.Sprintf("%s: %s: %s", span, e.Reason, text)
}
