package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file describes the problems of voters of the etcd that the sidecars run, and their
// remedies (docs/protocol.md#voters).

// Voter is a voter of the etcd that the sidecars run.
type Voter struct {
	Name    string // the node ID, or the ID of the member if that is not known
	Address string
	Healthy bool   // it answers, and knows a leader
	Waits   bool   // it answers, and knows no leader: it serves again when a majority does
	Leaving bool   // its removal was decided before, and may not be carried out yet
	Trouble string // the problem and its remedy, if it is not healthy (VoterTrouble)
}

// Majority returns how many of a number of voters must answer.
func Majority(voters int) int { return voters/2 + 1 }

// VoterFacts are the known facts about a voter that is not healthy.
type VoterFacts struct {
	Name, Address string
	Problem       string // as the node that asks finds it
	// Alive: the sidecar of its node has a presence.
	Alive bool
	// Reported is that sidecar's report of its member; empty: none.
	Reported string
	// SlowDisk: that sidecar warns of a slow disk, or did a moment ago.
	SlowDisk bool
	// Gone is for how long its node was without a presence, as the node that asks saw
	// it.
	Gone time.Duration
	// Spare: a majority is left if another voter stops too.
	Spare bool
}

// RemoveAfter is how long a node must be without a presence before people read how to
// remove it, or its member: longer than a machine needs to start again.
const RemoveAfter = 5 * time.Minute

// SlowBefore ends the description of a member that cannot be used, whose disk was slow.
const SlowBefore = "; its disk was slow before (DiskSlow), which may be the cause: find out what else uses it"

// withoutSpare ends the description of a voter's problem if the others are only just a
// majority.
const withoutSpare = "; etcd accepts no writes if another one of its voters stops"

// VoterTrouble describes a voter's problem and its remedy. It proposes to remove only a
// member whose sidecar has not been alive for a while: a removed member never serves
// again.
func VoterTrouble(f VoterFacts) string {
	problem, last := cmp.Or(f.Problem, "it is not healthy"), ""
	if !f.Spare {
		last = withoutSpare
	}
	switch {
	case f.Alive && f.Reported != "":
		return fmt.Sprintf("its sidecar runs, its etcd member (%s) does not serve: %s", f.Address, f.Reported) + last // the report names a slow disk
	case f.Alive && f.SlowDisk: // it cannot report a member that hangs
		return fmt.Sprintf("its sidecar runs, its etcd member (%s): %s", f.Address, problem) + SlowBefore + last
	case f.Alive:
		return fmt.Sprintf("its etcd member (%s): %s; its sidecar is alive and reports nothing of that: check the network to that address, and sidecar status on that node",
			f.Address, problem) + last
	case f.Gone < RemoveAfter:
		return fmt.Sprintf("its etcd member (%s): %s; its sidecar is not alive either: start that machine, and its sidecar", f.Address, problem) + last
	}
	return fmt.Sprintf("its etcd member (%s): %s; its sidecar has not been alive for more than %d minutes: start that machine, and its sidecar, "+
		"or if the node is off for good, type on another node: sidecar cluster remove %s", f.Address, problem, int(RemoveAfter.Minutes()), f.Name) + last
}

// NoMajority says that too few voters serve; empty: enough do. People need not start
// voters that only wait for a leader.
func NoMajority(voters []Voter) string {
	var down []string
	waiting := 0
	for _, v := range voters {
		switch {
		case v.Waits:
			waiting++
		case !v.Healthy:
			down = append(down, fmt.Sprintf("%s (%s)", v.Name, v.Address))
		}
	}
	if len(voters) == 0 || len(voters)-len(down)-waiting >= Majority(len(voters)) {
		return ""
	}
	if len(voters)-len(down) >= Majority(len(voters)) {
		return fmt.Sprintf("%d of %d voters of etcd answer and have no leader, so etcd accepts no writes; if this lasts, check the network between them",
			waiting, len(voters))
	}
	slices.Sort(down)
	return fmt.Sprintf("%d of %d voters of etcd do not serve, so there is no majority and etcd accepts no writes: %s; start these nodes; "+
		"if they are lost for good: docs/clusters.md#restore", len(down), len(voters), strings.Join(down, ", "))
}

// WithVoters returns a copy of a fleet whose records show which nodes vote.
func WithVoters(f Fleet, voters []Voter) Fleet {
	if len(voters) == 0 {
		return f
	}
	marked := make([]*Record, 0, len(f.Records))
	for _, r := range f.Records {
		one := *r
		one.Votes = slices.ContainsFunc(voters, func(v Voter) bool { return v.Name == string(r.ID) })
		marked = append(marked, &one)
	}
	f.Records = marked
	return f
}

// WithMayRestart returns a copy of a fleet whose records show which nodes may be restarting: those that are not alive, as
// the node that asks saw it, for less than RemoveAfter.
func WithMayRestart(f Fleet, mayRestart func(NodeID) bool) Fleet {
	marked := slices.Clone(f.Records)
	for i, r := range marked {
		if !r.Alive && mayRestart(r.ID) {
			one := *r
			one.MayRestart = true
			marked[i] = &one
		}
	}
	f.Records = marked
	return f
}

// ReportedMember returns a sidecar's report of its own etcd member; empty: none, or the
// node is not alive.
func ReportedMember(r Record) string {
	if !r.Alive {
		return ""
	}
	for _, w := range r.Presence.Warnings {
		if w.Reason == MemberDown && w.Subject == "" {
			return strings.TrimPrefix(w.Message, MemberCannotBeUsed)
		}
	}
	return ""
}

// HasSlowDisk reports whether a sidecar that is alive warns of the disk of its etcd member.
func HasSlowDisk(r Record) bool {
	return r.Alive && slices.ContainsFunc(r.Presence.Warnings, func(w Warning) bool { return w.Reason == DiskSlow })
}

// MemberCannotBeUsed begins the warning of a sidecar about its own etcd member.
const MemberCannotBeUsed = "its etcd member cannot be used: "
