package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// This file judges the effects of roles (docs/soak.md#roles).

// The rules about roles.
const (
	ServicesFirst = "ServicesFirst" // a gate is open only with ready services, which stop behind it (docs/protocol-nodes.md#services)
	LeadsByRole   = "LeadsByRole"   // only a node with the controller role leads (docs/protocol.md#eligibility)
	KeepsQuorum   = "KeepsQuorum"   // no role change takes the majority away (docs/protocol-membership.md#membership)
	OneCluster    = "OneCluster"    // a removed member never answers again, and begins no cluster (docs/protocol-membership.md#membership)
	Kept          = "Kept"          // a write that was acknowledged stays
	AsRecorded    = "AsRecorded"    // a node matches its record
)

// Agreeing is how long a node may take, without faults, until it matches its record.
// etcd takes no member in the five seconds after another one began to vote, and removes
// none then.
const Agreeing = 30 * time.Second

// Span is a time.
type Span struct{ From, To time.Duration }

// Moment is a step in the life of a service.
type Moment string

// The moments.
const (
	Started  Moment = "started"
	Ready    Moment = "ready"    // about to be
	Stopping Moment = "stopping" // it was asked to stop
)

// ServiceMoment is a moment of a node's service, which it wrote down itself.
type ServiceMoment struct {
	Node         string
	What         Moment
	At           time.Duration
	PID, Sidecar int    // processes: its own, and the sidecar that started it
	Generation   string // of its file
}

// Seats is the list of the members at some instant between Sent and Got.
type Seats struct {
	Sent, Got time.Duration
	All       []Seat
}

// Seat is a member.
type Seat struct {
	ID    uint64
	Node  string
	Voter bool
}

// Take is a command that took the role of a member from a node.
type Take struct {
	Node      string
	Sent, Got time.Duration
}

// Down is a time in which the member of a node could not answer.
type Down struct {
	Node string
	Span
}

// Ack is a write of the soak that etcd acknowledged.
type Ack struct {
	Key      string
	Revision int64
}

// Sight is the state of a node at some instant between Sent and Got.
type Sight struct {
	Node          string
	Sent, Got     time.Duration
	Listed, Votes bool // its member
	Runs          bool // the process of its member
	Serves        bool // its service runs and was ready
	Open          bool // its gate
}

// Differs says how a node differs from its record; empty: it matches.
func (s Sight) Differs(r Record) string {
	switch {
	case r.Corrupt:
		return "the record of " + s.Node + " is corrupt"
	case r.Member && (!s.Votes || !s.Runs):
		return fmt.Sprintf("%s has the role of a member: listed %t, votes %t, its process runs %t", s.Node, s.Listed, s.Votes, s.Runs)
	case !r.Member && (s.Listed || s.Runs):
		return fmt.Sprintf("%s does not have the role of a member: listed %t, votes %t, its process runs %t", s.Node, s.Listed, s.Votes, s.Runs)
	case r.Controller && !s.Serves:
		return s.Node + " has the controller role, and its service is not ready"
	case !r.Controller && (s.Serves || s.Open):
		return fmt.Sprintf("%s does not have the controller role: its service runs %t, its gate is open %t", s.Node, s.Serves, s.Open)
	}
	return ""
}

// roles judges the rest of the history, besides the events.
func (j *judging) roles() {
	j.servicesFirst()
	j.keepsQuorum()
	j.oneCluster()
	j.kept()
	j.asRecorded()
	j.judgeTurns()
}

// servicesFirst: an answer "ready" comes after the service of this sidecar was ready, and
// before it is asked to stop.
func (j *judging) servicesFirst() {
	moments := slices.Clone(j.h.Services)
	slices.SortStableFunc(moments, func(a, b ServiceMoment) int { return cmp.Compare(a.At, b.At) })
	of := map[int][]ServiceMoment{}
	for _, m := range moments {
		of[m.Sidecar] = append(of[m.Sidecar], m)
	}
	for _, p := range j.h.Probes {
		if !p.Ready || p.Sidecar == 0 {
			continue
		}
		state := Moment("not started")
		for _, m := range of[p.Sidecar] {
			switch {
			case m.At <= p.Sent && m.What != Started, m.At <= p.Got && m.What == Ready:
				state = m.What
			}
		}
		if state != Ready && j.once(ServicesFirst, p) {
			j.fail(ServicesFirst, j.clock.low(p.Sent), "%s #%d was ready between %.3fs and %.3fs, and its service was %s",
				p.Node, p.Instance, p.Sent.Seconds(), p.Got.Seconds(), state)
		}
	}
}

// leadsByRole: a node that lost the role does not write the status, once requests from
// before can no longer land: it decides on snapshots.
func (j *judging) leadsByRole(e *Event) {
	node := string(e.Status.Status.Leader)
	since, lost := j.lost[node]
	if took := j.clock.earliest(e.Revision) - j.clock.latest(since); lost && !e.Foreign && took > j.drain {
		j.fail(LeadsByRole, e.Revision, "%s wrote the status, and has not had the controller role for %.0fs", node, took.Seconds())
	}
}

// noteRole keeps when a node lost the controller role.
func (j *judging) noteRole(e *Event) {
	r := e.Record
	_, lost := j.lost[r.Node]
	switch {
	case r.Gone || r.Corrupt || r.Controller:
		delete(j.lost, r.Node)
	case !lost:
		j.lost[r.Node] = e.Revision
	}
}

// keepsQuorum: when a voter lost its role, a majority of the others may have answered.
func (j *judging) keepsQuorum() {
	for _, t := range j.h.Takes {
		around := j.seatsAround(t)
		if len(around) == 0 || slices.ContainsFunc(around, func(s Seats) bool { return j.mayLose(t, s) }) {
			continue
		}
		j.fail(KeepsQuorum, j.clock.low(t.Got), "%s lost the role of a member between %.3fs and %.3fs, and fewer than a majority of the others could answer: %v",
			t.Node, t.Sent.Seconds(), t.Got.Seconds(), around[0].All)
	}
}

// seatsAround are the lists that may have been true during a command.
func (j *judging) seatsAround(t Take) []Seats {
	var out []Seats
	for _, s := range j.h.Seats {
		switch {
		case s.Got < t.Sent:
			out = []Seats{s}
		case s.Sent <= t.Got:
			out = append(out, s)
		default:
			return append(out, s)
		}
	}
	return out
}

func (j *judging) mayLose(t Take, s Seats) bool {
	others, answer := 0, 0
	for _, seat := range s.All {
		if !seat.Voter || seat.Node == t.Node {
			continue
		}
		others++
		if !slices.ContainsFunc(j.h.Downs, func(d Down) bool { return d.Node == seat.Node && d.From <= t.Sent && t.Got <= d.To }) {
			answer++
		}
	}
	return others > 0 && answer > others/2
}

// oneCluster: all members that answer are of the first cluster, and none of them was
// removed before it was asked.
func (j *judging) oneCluster() {
	removed, present := map[uint64]time.Duration{}, map[uint64]bool{}
	for _, s := range j.h.Seats {
		now := map[uint64]bool{}
		for _, seat := range s.All {
			now[seat.ID], present[seat.ID] = true, true
		}
		for id := range present {
			if _, known := removed[id]; !known && !now[id] {
				removed[id] = s.Got
			}
		}
	}
	first, reported := uint64(0), map[uint64]bool{}
	for _, r := range j.h.Readings {
		if r.Cluster == 0 {
			continue
		}
		first = cmp.Or(first, r.Cluster)
		at, gone := removed[r.Member]
		switch {
		case reported[r.Member]:
		case r.Cluster != first:
			reported[r.Member] = true
			j.fail(OneCluster, r.Revision, "the member %x answered at %.3fs for the cluster %x, and the cluster is %x", r.Member, r.Got.Seconds(), r.Cluster, first)
		case gone && at < r.Sent:
			reported[r.Member] = true
			j.fail(OneCluster, r.Revision, "the member %x answered at %.3fs, and was removed before %.3fs", r.Member, r.Got.Seconds(), at.Seconds())
		}
	}
}

// kept: each acknowledged write is in etcd's log of changes.
func (j *judging) kept() {
	for _, ack := range j.h.Acks {
		if j.writes[ack.Key] != ack.Revision {
			j.fail(Kept, ack.Revision, "the write of %s was acknowledged, and is not in the log of changes", ack.Key)
			return
		}
	}
}

// asRecorded: after a time without faults, a node matches its record, if its roles did not change
// meanwhile.
func (j *judging) asRecorded() {
	reported := map[string]bool{}
	for _, s := range j.h.Sights {
		calm := slices.ContainsFunc(j.h.Calms, func(c Span) bool { return c.From <= s.Sent-Agreeing && s.Got <= c.To })
		if !calm || reported[s.Node] {
			continue
		}
		moments := j.between(j.clock.low(s.Sent-Agreeing), j.clock.high(s.Got))
		same := len(moments) > 0 && !slices.ContainsFunc(moments, func(m moment) bool {
			was, now := moments[0].records[s.Node], m.records[s.Node]
			return now.Node == "" || now.Corrupt || was.Member != now.Member || was.Controller != now.Controller
		})
		if !same {
			continue
		}
		if problem := s.Differs(moments[0].records[s.Node]); problem != "" {
			reported[s.Node] = true
			j.fail(AsRecorded, moments[0].revision, "%s, %.0fs and more without faults", problem, Agreeing.Seconds())
		}
	}
}
