package show

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// Only a member whose sidecar has not been alive for a while is one to remove: a user who types
// that command loses the node.
func TestVoterTrouble(t *testing.T) {
	const spare = "if another one of its voters stops"
	for name, tt := range map[string]struct {
		facts   voterFacts
		want    []string
		removes bool
	}{
		"its sidecar reports the cause": {
			voterFacts{alive: true, reported: "no space left on device", problem: "it does not answer", gone: time.Hour},
			[]string{"its sidecar runs, its etcd member (10.0.0.2) does not serve: no space left on device"}, false,
		},
		"its sidecar reports nothing": {
			voterFacts{alive: true, problem: "it does not answer", gone: time.Hour},
			[]string{"its etcd member (10.0.0.2): it does not answer; its sidecar is alive and reports nothing of that", "check the network"}, false,
		},
		"both stopped a moment ago": {
			voterFacts{problem: "it does not answer", gone: protocol.RemoveAfter - time.Second},
			[]string{"it does not answer; its sidecar is not alive either: start that machine"}, false,
		},
		"both stopped long ago": {
			voterFacts{gone: protocol.RemoveAfter},
			[]string{"it is not healthy; its sidecar has not been alive for more than 5 minutes: start that machine", "if the node is off for good"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, last := range []bool{false, true} {
				tt.facts.name, tt.facts.address, tt.facts.spare = "cp-2", "10.0.0.2", !last
				got := voterTrouble(tt.facts)
				for _, want := range tt.want {
					if !strings.Contains(got, want) {
						t.Errorf("got %q, want %q in it", got, want)
					}
				}
				if strings.Contains(got, "cluster remove cp-2") != tt.removes || strings.Contains(got, spare) != last {
					t.Errorf("got %q; proposes the removal: want %t; the last spare one: want %t", got, tt.removes, last)
				}
			}
		})
	}
}

func TestNoMajority(t *testing.T) {
	const one = "1 of 2 voters of etcd does not serve, so there is no majority and etcd accepts no writes: 1 (10.0.0.1); "
	const two = "2 of 3 voters of etcd do not serve, so there is no majority and etcd accepts no writes: 0 (10.0.0.1), 1 (10.0.0.1); "
	const lost = "if they are lost for good, " + cluster.Restore
	for _, tt := range []struct {
		states, own string
		lasts       bool
		want        string
	}{
		{"", "0", true, ""}, {"h", "0", true, ""}, {"hhd", "0", true, ""}, {"hhhdd", "0", true, ""}, {"hhw", "0", true, ""},
		{"hd", "0", true, one + "start this node, or if it runs, see sidecar status there; if it is lost for good, " + cluster.Restore},
		{"hd", "0", false, one + "start this node, or if it runs, see sidecar status there"},
		{"wd", "1", true, one + ownPatient}, // never a restore from the patient
		{"wd", "1", false, one + ownPatient},
		{"ddw", "2", true, two + "start these nodes, or if they run, see sidecar status there; " + lost},
		{"ddw", "2", false, two + "start these nodes, or if they run, see sidecar status there"},
		{"ddw", "0", true, two + ownPatient},
		{"ddh", "2", true, two + "start these nodes, or if they run, see sidecar status there; " + lost},
		{"ddh", "without a member", true, two + "start these nodes, or if they run, see sidecar status there; " + lost},
		{"www", "0", true, "3 of 3 voters of etcd answer and have no leader, so etcd accepts no writes; if this lasts, check the network between them"},
		{"dww", "0", true, "2 of 3 voters of etcd answer and have no leader, so etcd accepts no writes; if this lasts, check the network between them"},
	} {
		var all []protocol.Voter
		for i, v := range tt.states {
			all = append(all, protocol.Voter{Name: string(rune('0' + i)), Address: "10.0.0.1", Healthy: v == 'h', Waits: v == 'w'})
		}
		got, patients := noMajority(all, tt.own, tt.lasts)
		if got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
		for _, v := range all { // those of the text
			named := strings.Contains(tt.want, v.Name+" (") || strings.Contains(tt.want, "no leader") && v.Waits
			if slices.Contains(patients, v.Name) != named {
				t.Errorf("%s: the patients are %q", tt.states, patients)
			}
		}
	}
}

// Of two voters, one stalls: a restore is named only where the member serves, and after the time that a restart may take.
func TestMemberWarnings_restore(t *testing.T) {
	members := []cluster.Observed{
		{Member: report.Member{ID: "1", Node: "a", Problem: "it has no leader", Since: report.At(observedAt)}},
		{Member: report.Member{ID: "2", Node: "b", Problem: "it does not answer", Since: report.At(observedAt.Add(-time.Minute))}},
	}
	for _, tt := range []struct {
		own      protocol.NodeID
		passed   time.Duration
		restores bool
	}{
		{"a", 10 * time.Second, false}, {"a", protocol.RemoveAfter - 1, false}, {"a", protocol.RemoveAfter, true},
		{"b", 10 * time.Second, false}, {"b", protocol.RemoveAfter, false},
	} {
		facts := memberFacts{own: tt.own, members: members}
		now := observedAt.Add(tt.passed)
		got := facts.warnings(facts.troubles(now), now)
		if len(got) != 1 || got[0].Subject != "b" || strings.Contains(got[0].Message, "cluster restore") != tt.restores || !got[0].Since.Equal(observedAt) {
			t.Errorf("%+v: got %+v", tt, got)
		}
	}
	facts := memberFacts{own: "a", members: members, fleet: protocol.Fleet{Records: []*protocol.Record{{ID: "a", Alive: true}, {ID: "b", Alive: true}}}}
	facts.seen = sightings{}.update(facts.fleet, observedAt.Add(-time.Hour))
	for passed := time.Duration(0); ; { // the text changes by itself
		at := facts.nextRemoval(observedAt.Add(passed))
		if at.IsZero() {
			t.Fatal("nothing awaits the time of the restore")
		}
		if passed = at.Sub(observedAt); passed == protocol.RemoveAfter {
			break
		}
	}
}

func TestReportedMember(t *testing.T) {
	record := protocol.Record{ID: "b", Alive: true, Presence: protocol.Presence{Warnings: []protocol.Warning{
		{Reason: warn.MemberDown, Subject: "c", Message: "of another node"},
		{Reason: warn.MemberDown, Message: memberCannotBeUsed + "no space left on device"},
	}}}
	if got := reportedMember(record, warn.MemberDown, memberCannotBeUsed); got != "no space left on device" {
		t.Errorf("got %q", got)
	}
	record.Alive = false
	if got := reportedMember(record, warn.MemberDown, memberCannotBeUsed); got != "" {
		t.Errorf("not alive: got %q", got)
	}
}

// An upgrade stops another voter in any case: what follows from that is said by the obstacle.
func TestNodeVoters_spare(t *testing.T) {
	members := []cluster.Observed{{Member: report.Member{ID: "1", Node: "a"}}, {Member: report.Member{ID: "2", Learner: true}}}
	got := nodeVoters(members, map[string]string{"1": "it is down" + withoutSpare})
	if len(got) != 1 || got[0].Name != "a" || got[0].Trouble != "it is down" {
		t.Errorf("got %+v", got)
	}
}
