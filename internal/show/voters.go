package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// This file describes the problems of voters of the etcd that the sidecars run, and their
// remedies (docs/protocol.md#voters).

// voterFacts are the known facts about a voter that is not healthy.
type voterFacts struct {
	name, address string
	problem       string // as the node that asks finds it
	// alive: the sidecar of its node has a presence.
	alive bool
	// reported is that sidecar's report of its member; empty: none.
	reported string
	// slowDisk: that sidecar warns of a slow disk, or did a moment ago.
	slowDisk bool
	// gone is for how long its node was without a presence, as the node that asks saw
	// it.
	gone time.Duration
	// spare: a majority is left if another voter stops too.
	spare bool
}

// slowBefore ends the description of a member that cannot be used, whose disk was slow.
const slowBefore = "; its disk was slow before (DiskSlow), which may be the cause: find out what else uses it"

// withoutSpare ends the description of a voter's problem if the others are only just a
// majority.
const withoutSpare = "; etcd accepts no writes if another one of its voters stops"

// voterTrouble describes a voter's problem and its remedy. It proposes to remove only a
// member whose sidecar has not been alive for a while: a removed member never serves
// again.
func voterTrouble(f voterFacts) string {
	problem, last := cmp.Or(f.problem, "it is not healthy"), ""
	if !f.spare {
		last = withoutSpare
	}
	switch {
	case f.alive && f.reported != "":
		return fmt.Sprintf("its sidecar runs, its etcd member (%s) does not serve: %s", f.address, f.reported) + last // the report names a slow disk
	case f.alive && f.slowDisk: // it cannot report a member that hangs
		return fmt.Sprintf("its sidecar runs, its etcd member (%s): %s", f.address, problem) + slowBefore + last
	case f.alive:
		return fmt.Sprintf("its etcd member (%s): %s; its sidecar is alive and reports nothing of that: check the network to that address, and sidecar status on that node",
			f.address, problem) + last
	case protocol.MayRestart(f.gone):
		return fmt.Sprintf("its etcd member (%s): %s; its sidecar is not alive either: start that machine, and its sidecar", f.address, problem) + last
	}
	return fmt.Sprintf("its etcd member (%s): %s; its sidecar has not been alive for more than %d minutes: start that machine, and its sidecar, "+
		"or if the node is off for good, type on another node: sidecar cluster remove %s", f.address, problem, int(protocol.RemoveAfter.Minutes()), f.name) + last
}

// noMajority says that too few voters serve, and which ones; empty: enough do. People need not start
// voters that only wait for a leader. A restore is proposed only on a node whose voter is no patient, and if
// the outage lasts: most end by themselves, and a restore loses what only the others have.
func noMajority(all []protocol.Voter, own string, lasts bool) (text string, patients []string) {
	var down, waiting, addresses []string
	for _, v := range all {
		switch {
		case v.Waits:
			waiting = append(waiting, v.Name)
		case !v.Healthy:
			down, addresses = append(down, v.Name), append(addresses, fmt.Sprintf("%s (%s)", v.Name, v.Address))
		}
	}
	if len(all) == 0 || len(all)-len(down)-len(waiting) >= protocol.Majority(len(all)) {
		return "", nil
	}
	if len(all)-len(down) >= protocol.Majority(len(all)) {
		return fmt.Sprintf("%d of %d voters of etcd answer and have no leader, so etcd accepts no writes; if this lasts, check the network between them",
			len(waiting), len(all)), waiting
	}
	slices.Sort(addresses)
	does, start, lost := "do not serve", "start these nodes, or if they run, see sidecar status there", "; if they are lost for good, "
	if len(down) == 1 {
		does, start, lost = "does not serve", "start this node, or if it runs, see sidecar status there", "; if it is lost for good, "
	}
	switch {
	case slices.Contains(down, own):
		start = ownPatient
	case lasts:
		start += lost + cluster.Restore
	}
	return fmt.Sprintf("%d of %d voters of etcd %s, so there is no majority and etcd accepts no writes: %s; %s",
		len(down), len(all), does, strings.Join(addresses, ", "), start), down
}

// ownPatient ends the text on a node whose own voter does not serve.
const ownPatient = "check here why this node's member does not serve: the sidecar's log (worker=etcd-member), the disk, the machine"

// reportedMember returns a sidecar's report of its own etcd member, a warning of that reason, without its beginning;
// empty: none, or the node is not alive.
func reportedMember(r protocol.Record, reason protocol.Reason, begin string) string {
	for _, w := range r.Presence.Warnings {
		if r.Alive && w.Reason == reason && w.Subject == "" {
			return strings.TrimPrefix(w.Message, begin)
		}
	}
	return ""
}

// hasSlowDisk reports whether a sidecar that is alive warns of the disk of its etcd member.
func hasSlowDisk(r protocol.Record) bool {
	return r.Alive && slices.ContainsFunc(r.Presence.Warnings, func(w protocol.Warning) bool { return w.Reason == warn.DiskSlow })
}

// memberCannotBeUsed begins the warning of a sidecar about its own etcd member.
const memberCannotBeUsed = "its etcd member cannot be used: "
