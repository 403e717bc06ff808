package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// voters returns the number of voting members, and the unhealthy voters.
func voters(members []cluster.Observed) (all int, unhealthy []cluster.Observed) {
	for _, m := range members {
		if m.Learner {
			continue
		}
		all++
		if !m.Healthy {
			unhealthy = append(unhealthy, m)
		}
	}
	return all, unhealthy
}

// nameOf names a member: by its node, or if that is not known, by its ID.
func nameOf(m cluster.Observed) string { return cmp.Or(m.Node, m.ID) }

// memberFacts are this sidecar's facts about the members of an etcd that the sidecars run.
type memberFacts struct {
	members []cluster.Observed
	removed []protocol.MemberRemoval
	fleet   protocol.Fleet
	seen    sightings
	own     protocol.NodeID
	// problem is why this node's member cannot be used; empty: it can be used.
	problem string
}

func (s *Show) memberFacts() memberFacts {
	return memberFacts{
		members: s.Cluster.Members().Get(), removed: s.Cluster.Removed().Get(), fleet: s.Fleet.Get(), seen: s.seen.Get(),
		own: s.Local.Get().ID, problem: s.memberProblem(),
	}
}

// memberProblem returns why this node's member cannot be used, although it joined its cluster
// before; empty: it can be used.
func (s *Show) memberProblem() string {
	if s.Cluster.Status().Get().State != cluster.Running {
		return ""
	}
	return s.Cluster.MemberProblem()
}

// troubles returns the problem of each unhealthy voter, by the member's ID.
func (f memberFacts) troubles(now time.Time) map[string]string {
	all, faulty := voters(f.members)
	spare := all-len(faulty)-1 >= protocol.Majority(all)
	out := map[string]string{}
	for _, m := range faulty {
		facts := voterFacts{
			name: nameOf(m), address: m.Address, problem: m.Problem, spare: spare, gone: now.Sub(m.Since.Time),
		}
		if record, found := f.fleet.Record(protocol.NodeID(m.Node)); found {
			facts.alive, facts.slowDisk = record.Alive, hasSlowDisk(record)
			facts.reported = reportedMember(record, warn.MemberDown, memberCannotBeUsed)
			facts.gone = now.Sub(f.seen.aliveSince(record, now))
		}
		if m.Node == string(f.own) && f.problem != "" {
			facts.alive, facts.reported = true, f.problem
		}
		out[m.ID] = voterTrouble(facts)
	}
	return out
}

// warnings returns the warnings about unhealthy voters, except this node's, which ownWarnings reports, and those of nodes
// that are not alive: fleetWarningsNow reports these.
func (f memberFacts) warnings(troubles map[string]string, now time.Time) []protocol.Warning {
	_, faulty := voters(f.members)
	var out []protocol.Warning
	var since time.Time
	for _, m := range faulty {
		if m.Since.After(since) {
			since = m.Since.Time
		}
	}
	if text, patients := noMajority(nodeVoters(f.members, nil), string(f.own), !protocol.MayRestart(now.Sub(since))); text != "" {
		for _, name := range patients {
			out = append(out, protocol.Warning{Reason: warn.MemberDown, Subject: name, Message: text, Since: since})
		}
		return out
	}
	for _, m := range faulty {
		if m.Node == string(f.own) && f.problem != "" || f.dead(m) {
			continue
		}
		out = append(out, protocol.Warning{
			Reason: warn.MemberDown, Subject: nameOf(m), Message: troubles[m.ID], Since: m.Since.Time,
		})
	}
	return out
}

// patients are the voters that a warning about a missing majority names.
func (f memberFacts) patients() []string {
	_, patients := noMajority(nodeVoters(f.members, nil), string(f.own), false)
	return patients
}

// follows reports whether a warning of this node only follows from a missing majority: its member waits for a leader
// until the voters that are down serve again. The warning about these is the cause.
func (f memberFacts) follows(w protocol.Warning) bool {
	if w.Reason != warn.MemberDown || w.Subject != "" {
		return false
	}
	patients := f.patients()
	leaderless := func(m cluster.Observed) bool { return m.Node == string(f.own) && m.NoLeader() }
	return len(patients) > 0 && !slices.Contains(patients, string(f.own)) && slices.ContainsFunc(f.members, leaderless)
}

// dead reports whether a member is down because its node is not alive, which is another warning.
func (f memberFacts) dead(m cluster.Observed) bool {
	r, found := f.fleet.Record(protocol.NodeID(m.Node))
	return found && m.Node != string(f.own) && r.Missing()
}

// ofDead returns the end of the warning that a node is not alive: its etcd member is down, too. Without a majority, the
// warning about that names the node, and replaces the other one.
func (f memberFacts) ofDead(node string) (text string, replaced bool) {
	all, faulty := voters(f.members)
	i := slices.IndexFunc(faulty, func(m cluster.Observed) bool { return m.Node == node && f.dead(m) })
	if i < 0 {
		return "", false
	}
	if slices.Contains(f.patients(), node) {
		return "", true
	}
	text = fmt.Sprintf("; its etcd member (%s): %s", faulty[i].Address, cmp.Or(faulty[i].Problem, "it is not healthy"))
	if all-len(faulty)-1 < protocol.Majority(all) {
		text += withoutSpare
	}
	return text, false
}

// fleetWarningsNow returns the warnings of the fleet. A node that is not alive for a short time may be restarting.
func (f memberFacts) fleetWarningsNow(v protocol.StatusView, now time.Time) []protocol.Warning {
	marked := protocol.WithMayRestart(f.fleet, func(id protocol.NodeID) bool { return f.seen.nodes[id].mayRestart(now) })
	var out []protocol.Warning
	facts := upgrade.Facts{Status: v, Fleet: marked, Voters: nodeVoters(f.members, nil), Removed: f.removed}
	for _, w := range fleetWarnings(facts, f.own) {
		if r, found := f.fleet.Record(protocol.NodeID(w.Subject)); found && w.Reason == warn.NodeDead {
			more, replaced := f.ofDead(w.Subject)
			if replaced {
				continue
			}
			w.Message += more
			w.Since = f.seen.aliveSince(r, now) // the message changes while it lasts
		} else if found && (w.Reason == protocol.APIServerNotReady || w.Reason == warn.GateClosed) {
			w.Since = f.seen.servesSince(r, now) // so does this one
		}
		out = append(out, w)
	}
	return out
}

// leaving returns warnings about voters whose nodes lost the role consensus and are not alive: they
// leave only when they start again, and count for the majority until then.
func (f memberFacts) leaving() []protocol.Warning {
	var out []protocol.Warning
	for _, m := range f.members {
		r, found := f.fleet.Record(protocol.NodeID(m.Node))
		if found && !m.Learner && r.Problem == "" && !r.Alive && !r.Node.Roles.Consensus {
			out = append(out, protocol.Warning{
				Reason: warn.MemberLeaves, Subject: m.Node, Message: "it has lost the role " + protocol.RoleConsensus +
					", and is a voter of etcd until its sidecar starts again: start that",
			})
		}
	}
	return out
}

// ofPresentMembers returns the warnings without those about a member that was removed, or serves again, since they were
// collected: the list of members beside them is newer (warningPause).
func ofPresentMembers(warnings []protocol.Warning, members []cluster.Observed) []protocol.Warning {
	outdated := func(w protocol.Warning) bool {
		switch {
		case w.Subject == "":
			return false
		case w.Reason != warn.MemberDown && w.Reason != warn.MemberLeaves && w.Reason != warn.RemovalInterrupted:
			return false
		}
		return !slices.ContainsFunc(members, func(m cluster.Observed) bool {
			return nameOf(m) == w.Subject && (w.Reason != warn.MemberDown || !m.Healthy)
		})
	}
	if !slices.ContainsFunc(warnings, outdated) {
		return warnings
	}
	return slices.DeleteFunc(slices.Clone(warnings), outdated)
}

// interruptedAfter is how long a removal may take: a member that leads hands over, and etcd may want
// five seconds first.
const interruptedAfter = time.Minute

// interrupted returns warnings about voters whose removal was decided and not carried out: until then
// they count as leaving for every other removal. A node that lost the role consensus removes its member
// itself.
func (f memberFacts) interrupted(now time.Time) []protocol.Warning {
	var out []protocol.Warning
	for _, m := range f.members {
		r, found := f.fleet.Record(protocol.NodeID(m.Node))
		itself := found && r.Problem == "" && !r.Node.Roles.Consensus
		if m.Learner || m.LeavingSince.IsZero() || itself || now.Sub(m.LeavingSince.Time) < interruptedAfter {
			continue
		}
		name := nameOf(m)
		alive := found && r.Alive
		reported := reportedMember(r, warn.RemovalInterrupted, memberStays)
		if reported != "" && m.Node == string(f.own) {
			continue // its own warning has more
		}
		typed := ": a command was interrupted, or etcd refused it; type: sidecar cluster remove " + name
		switch {
		case reported != "":
			typed = "; its sidecar goes on with it: " + reported
		case alive && m.ForGood: // to take the role from it would end it, too
			typed = ": a command was interrupted. Its key is refused, so it cannot renew its certificate. Its sidecar ends, and the node joins again " +
				"with an empty data directory and a new token, if you type: sidecar cluster remove " + name + " --force"
		case alive: // cluster remove --force would end a node that may have the role again
			typed = ": a command was interrupted, or etcd refused it; type: sidecar node set-roles " + name + " --remove " + protocol.RoleConsensus
		}
		out = append(out, protocol.Warning{
			Reason: warn.RemovalInterrupted, Subject: name, Since: m.LeavingSince.Time,
			Message: "its removal from etcd was decided and is not finished" + typed,
		})
	}
	return out
}

// nodeVoters returns the voters, with the problem of each by the member's ID. That an upgrade needs
// a spare voter is said by the obstacle itself.
func nodeVoters(members []cluster.Observed, troubles map[string]string) []protocol.Voter {
	var out []protocol.Voter
	for _, m := range members {
		if !m.Learner {
			out = append(out, protocol.Voter{
				Name: nameOf(m), Address: m.Address, Healthy: m.Healthy, Waits: m.NoLeader(),
				Trouble: strings.TrimSuffix(troubles[m.ID], withoutSpare),
			})
		}
	}
	return out
}

// nextRemoval returns when the warnings about a node or a voter change because the node was not alive for long
// enough, or because its removal took too long; zero: never.
func (f memberFacts) nextRemoval(now time.Time) time.Time {
	var all []time.Time
	_, faulty := voters(f.members)
	for _, m := range faulty {
		all = append(all, m.Since.Add(protocol.RemoveAfter)) // without a majority
		if record, found := f.fleet.Record(protocol.NodeID(m.Node)); found {
			all = append(all, f.seen.aliveSince(record, now).Add(protocol.RemoveAfter))
		}
	}
	for _, r := range f.fleet.Records {
		if !r.Alive {
			all = append(all, f.seen.aliveSince(*r, now).Add(protocol.RemoveAfter))
		}
	}
	for _, m := range f.members {
		if !m.LeavingSince.IsZero() {
			all = append(all, m.LeavingSince.Add(interruptedAfter))
		}
	}
	return earliest(now, all...)
}
