package upgrade

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// This file says which voters of the etcd that the sidecars run hold an upgrade, and names
// the costs that come from the size of the fleet alone. That size holds no upgrade: a fleet
// of one could never be upgraded (docs/protocol.md#upgrade-ready).

// VoterObstacles returns the voters for which the next upgrade must wait: those that are down,
// if fewer than a majority would answer while it stops another one
// (docs/protocol.md#upgrade-ready). One or two voters that are healthy hold nothing: the notes
// name the cost of an upgrade then.
func VoterObstacles(voters []protocol.Voter) []protocol.Warning {
	var out []protocol.Warning
	for _, v := range voters {
		if !v.Healthy {
			out = append(out, protocol.Warning{Reason: warn.MemberDown, Subject: v.Name, Message: fmt.Sprintf(
				"%s; an upgrade stops another voter, and etcd would accept no writes meanwhile", cmp.Or(v.Trouble, "its etcd member is not healthy"))})
		}
	}
	if healthy := len(voters) - len(out); healthy-1 >= protocol.Majority(len(voters)) {
		return nil
	}
	return out
}

// notes returns a sentence for each cost.
func notes(f protocol.Fleet, voters []protocol.Voter) []string {
	var out []string
	var more string
	if n := len(voters); n > 0 && n-1 < protocol.Majority(n) {
		what := "add a third voter"
		if n == 1 {
			what = "add two voters"
		}
		more = moreVoters(f, voters)
		out = append(out, fmt.Sprintf("etcd, and each kube-apiserver that uses it, stop during the upgrade; %s: %s", what, more))
	}
	var only []protocol.NodeID
	for _, r := range f.Records {
		if needed(r) {
			only = append(only, r.ID)
		}
	}
	if len(only) == 1 {
		remedy := "add a second one: " + moreControllers(f, voters)
		if more == joins && strings.HasSuffix(remedy, joins) {
			remedy = "each node that joins is one more"
		}
		out = append(out, fmt.Sprintf("%s is the only controller, so no kube-apiserver serves while it is upgraded; %s", only[0], remedy))
	}
	return out
}

// joins is the command that lets a new node join, which becomes a controller and a voter.
const joins = "sidecar cluster token create"

// moreVoters is the command that leads to one more voter: a node of the fleet that is none
// becomes one, or a new node joins.
func moreVoters(f protocol.Fleet, voters []protocol.Voter) string {
	votes := map[protocol.NodeID]bool{}
	for _, v := range voters {
		votes[protocol.NodeID(v.Name)] = true
	}
	return withRole(f, protocol.RoleConsensus, joins, func(r *protocol.Record) bool { return !r.Node.Roles.Consensus && !votes[r.ID] })
}

// moreControllers leads to one more controller. Where etcd runs elsewhere, no command lets a node join.
func moreControllers(f protocol.Fleet, voters []protocol.Voter) string {
	otherwise := "start a kube-apiserver and its sidecar on another machine"
	if len(voters) > 0 {
		otherwise = joins
	}
	return withRole(f, protocol.RoleController, otherwise, func(r *protocol.Record) bool { return !r.Node.Roles.Controller })
}

// withRole is the command that gives a role to the first node that may get it, whatever other roles it has.
func withRole(f protocol.Fleet, role, otherwise string, may func(*protocol.Record) bool) string {
	for _, r := range f.Records {
		if r.Problem == "" && r.Alive && !r.Node.Ephemeral && may(r) {
			return fmt.Sprintf("sidecar node set-roles %s --add %s", r.ID, role)
		}
	}
	return otherwise
}
