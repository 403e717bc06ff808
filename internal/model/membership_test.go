package model

import (
	"testing"

	"github.com/lockstep-dev/lockstep/protocol/membership"
)

func membersOf(nodes, changes, faults int) MembersConfig {
	return MembersConfig{Nodes: nodes, Changes: changes, Faults: faults}
}

func (c MembersConfig) down(n int) MembersConfig                { c.Down = n; return c }
func (c MembersConfig) spare(n int) MembersConfig               { c.Spare = n; return c }
func (c MembersConfig) without(o memberSafeguard) MembersConfig { c.Off = o; return c }
func (c MembersConfig) asking(name string) MembersConfig        { c.Only = name; return c }

func (c MembersConfig) joining() MembersConfig       { c.Joins = true; return c }
func (c MembersConfig) restored(n int) MembersConfig { c.Restores = n; return c }
func (c MembersConfig) upgraded(n int) MembersConfig { c.Upgrades = n; return c }

func (c MembersConfig) hanging() MembersConfig { c.Hangs = true; return c }

func (c MembersConfig) shared() MembersConfig { c.Shared = true; return c }

// memberWorlds are the worlds that the tests search.
func memberWorlds() []MembersConfig {
	return []MembersConfig{
		membersOf(2, 3, 1), membersOf(1, 3, 1).spare(1), membersOf(3, 2, 1), membersOf(3, 3, 0).down(1), membersOf(4, 2, 1).down(1),
		membersOf(1, 3, 2).spare(1), membersOf(1, 2, 1).spare(2).shared(),
		membersOf(1, 1, 2).spare(1).joining(), membersOf(2, 1, 2).restored(1), membersOf(1, 2, 1).spare(1).restored(1), membersOf(3, 1, 1).upgraded(2), membersOf(3, 1, 0).down(1).upgraded(1),
		membersOf(1, 3, 1).spare(1).hanging(), membersOf(1, 1, 1).spare(1).joining().hanging(),
	}
}

// largeMemberWorlds are the worlds of make model.
func largeMemberWorlds() []MembersConfig {
	return []MembersConfig{
		membersOf(2, 4, 2), membersOf(3, 3, 2), membersOf(2, 3, 2).spare(1), membersOf(3, 3, 1).down(1).spare(1), membersOf(4, 3, 1), membersOf(5, 3, 0).down(1), membersOf(5, 2, 1).down(2),
	}
}

func TestMembers(t *testing.T) {
	worlds := memberWorlds()
	if *full {
		worlds = append(worlds, largeMemberWorlds()...)
	}
	var states int
	var steps uint16
	for _, cfg := range worlds {
		t.Run(cfg.String(), func(t *testing.T) {
			if raced && cfg.Faults+cfg.Changes > 2 {
				t.Skip("takes too long under the race detector")
			}
			r := CheckMembers(&cfg)
			states, steps = states+r.States, steps|r.Steps
			t.Logf("%d states, %d transitions", r.States, r.Transitions)
			if r.Violation != nil {
				t.Errorf("\n%s", r.Violation)
			}
		})
	}
	waits := 1<<membership.AsIs | 1<<membership.AskMembers | 1<<membership.AwaitVote
	for step := membership.AsIs; step <= membership.EndRemoved && !raced; step++ {
		if (int(steps)|waits)&(1<<step) == 0 {
			t.Errorf("the search has no step %s", step)
		}
	}
	t.Logf("%d states", states)
}

type memberMutation struct {
	name string
	why  string // the safeguard exists
	cfg  MembersConfig
}

func memberMutations() []memberMutation {
	return []memberMutation{
		{
			"removal-guard", "Two commands judge at the same moment, each that the other's node stays.",
			membersOf(2, 2, 0).without(removalGuard).asking("Voters"),
		},
		{
			"leaving-counted", "A removal that was decided may be carried out late: a voter on its way out carries no other removal.",
			membersOf(2, 2, 0).without(leavingCounted).asking("Voters"),
		},
		{
			"health-counted", "With one of three members off, a removal of one that answers leaves two of which one does.",
			membersOf(3, 1, 0).down(1).without(healthCounted),
		},
		{
			"asked-first", "A request to remove a member may fail: the data of a member that still votes must stay.",
			membersOf(2, 1, 0).without(askedFirst).asking("OneLife"),
		},
		{
			"leaving-runs", "After a power failure a member that leaves is needed for the majority that removes it.",
			membersOf(2, 1, 1).without(leavingRuns),
		},
		{
			"data-moved", "A node that becomes a member again would start with the data of a member that was removed.",
			membersOf(2, 2, 0).without(dataMoved).asking("OneLife"),
		},
		{
			"decided-stays", "A node that gets its role back while the request to remove it is under way would count as a voter that stays.",
			membersOf(2, 3, 0).without(decidedStays).asking("Voters"),
		},
		{
			"unbegun-cleared", "A machine that was powered off while etcd made its log leaves a database without one, with which no etcd becomes ready.",
			membersOf(1, 1, 1).spare(1).without(unbegunCleared),
		},
		{
			"log-kept", "A node that becomes a member may vote before its marker says so: what it has stored counts.",
			membersOf(1, 1, 1).spare(1).without(logKept).asking("OneLife"),
		},
		{
			"learner-in-sync", "A learner that votes before it has the log counts for a majority that does not have the data.",
			membersOf(1, 1, 0).spare(1).without(learnerInSync).asking("OneLife"),
		},
		{
			"eviction-recorded", "A learner that is evicted catches up, and votes when it is removed: other removals must not count on it.",
			membersOf(1, 2, 1).spare(1).without(evictionRecorded).asking("Voters"),
		},
		{
			"address-free", "Two nodes with the same address would be two members, of which one answers for both.",
			membersOf(1, 2, 0).spare(2).shared().without(addressFree).asking("OneAddress"),
		},
		{
			"unrecorded-adopted", "A node is powered off when etcd has added its learner and before that has a record: its own address would stay in its way.",
			membersOf(1, 1, 1).spare(1).without(unrecordedAdopted),
		},
		{
			"asks-again", "A node that joins is killed just after its etcd made a log, and evicted: no member contacts it.",
			membersOf(1, 0, 2).spare(1).joining().without(asksAgain),
		},
		{
			"replaced-cleared", "A node that joins again as another member must not begin with the data of the one that was removed.",
			membersOf(1, 0, 2).spare(1).joining().without(replacedCleared).asking("OneLife"),
		},
		{
			"same-cluster", "A node without a member that kept its directory through a restore becomes a member of the new cluster, and does not start again.",
			membersOf(1, 1, 2).spare(1).restored(1).without(sameCluster),
		},
		{
			"role-given", "The cluster is restored on a node that was leaving: its only member would leave for ever.",
			membersOf(2, 1, 2).restored(1).without(roleGiven),
		},
		{
			"join-gives-role", "A node without a member kept its record through a restore, and joins: it would leave at once.",
			membersOf(1, 0, 1).spare(1).restored(1).without(joinGivesRole).asking("OneLife"),
		},
		{
			"obstacles-asked", "With one of three voters off, an upgrade that stops another one stops etcd.",
			membersOf(3, 0, 0).down(1).upgraded(1).without(obstaclesAsked).asking("Voters"),
		},
		{
			"leaving-not-adopted", "A learner without a record that is evicted would vote as the member of the node that took it over when it is removed.",
			membersOf(1, 2, 2).spare(1).without(leavingNotAdopted).asking("Voters"),
		},
		{
			"stands-in", "The sidecar beside etcd's leader hangs: a node that is added would be a learner for ever.",
			membersOf(1, 1, 0).spare(1).hanging().without(standsIn).asking("Settles"),
		},
		{
			"stand-in-waits", "A learner that was removed by people, because its machine goes away, would be a voter that the majority needs.",
			membersOf(1, 2, 0).spare(1).without(standInWaits).asking("Learners"),
		},
		{
			"stand-in-evicts-none", "A sidecar that is cut off from a learner sees no progress of it, and the learner makes some.",
			membersOf(1, 1, 1).spare(1).without(standInEvictsNone).asking("Learners"),
		},
	}
}

// decidedMutations are those of nodes whose removal was decided.
func decidedMutations() []memberMutation {
	return []memberMutation{
		{
			"decided-leaves", "A node that gets its role back after its removal was decided, and not carried out, would be leaving for ever: no other removal counts on it.",
			membersOf(2, 2, 1).without(decidedLeaves).asking("Settles"),
		},
		{
			"refused-ends", "An operator removes a node for good while it leaves, and it has the role: it would ask for ever to be added with a key that is refused.",
			membersOf(2, 3, 0).without(refusedEnds).asking("Settles"),
		},
	}
}

// TestMemberMutations turns off each safeguard and expects the search to find a violation,
// and none with the safeguard on.
func TestMemberMutations(t *testing.T) {
	for _, m := range append(memberMutations(), decidedMutations()...) {
		t.Run(m.name, func(t *testing.T) {
			r := CheckMembers(&m.cfg)
			if r.Violation == nil {
				t.Fatalf("got no violation in %d states, want one: %s", r.States, m.why)
			}
			wantGolden(t, "members-"+m.name+".txt", "# "+m.why+"\n# Found in: "+m.cfg.String()+"\n\n"+r.Violation.String())
			m.cfg.Off, m.cfg.Only = 0, ""
			if r := CheckMembers(&m.cfg); r.Violation != nil {
				t.Errorf("got a violation with the safeguard on:\n%s", r.Violation)
			}
		})
	}
}
