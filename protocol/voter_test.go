package protocol

import (
	"strings"
	"testing"
	"time"
)

// Only a member whose sidecar has not been alive for a while is one to remove: a user who types
// that command loses the node.
func TestVoterTrouble(t *testing.T) {
	const spare = "if another one of its voters stops"
	for name, tt := range map[string]struct {
		facts   VoterFacts
		want    []string
		removes bool
	}{
		"its sidecar reports the cause": {
			VoterFacts{Alive: true, Reported: "no space left on device", Problem: "it does not answer", Gone: time.Hour},
			[]string{"its sidecar runs, its etcd member (10.0.0.2) does not serve: no space left on device"}, false,
		},
		"its sidecar reports nothing": {
			VoterFacts{Alive: true, Problem: "it does not answer", Gone: time.Hour},
			[]string{"its etcd member (10.0.0.2): it does not answer; its sidecar is alive and reports nothing of that", "check the network"}, false,
		},
		"both stopped a moment ago": {
			VoterFacts{Problem: "it does not answer", Gone: RemoveAfter - time.Second},
			[]string{"it does not answer; its sidecar is not alive either: start that machine"}, false,
		},
		"both stopped long ago": {
			VoterFacts{Gone: RemoveAfter},
			[]string{"it is not healthy; its sidecar has not been alive for more than 5 minutes: start that machine", "if the node is off for good"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, last := range []bool{false, true} {
				tt.facts.Name, tt.facts.Address, tt.facts.Spare = "cp-2", "10.0.0.2", !last
				got := VoterTrouble(tt.facts)
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
	for voters, want := range map[string]string{
		"": "", "h": "", "hhd": "", "hhhdd": "",
		"hd":  "1 of 2 voters of etcd do not serve, so there is no majority and etcd accepts no writes: 1 (10.0.0.1); start these nodes; if they are lost for good: docs/clusters.md#restore",
		"ddw": "2 of 3 voters of etcd do not serve, so there is no majority and etcd accepts no writes: 0 (10.0.0.1), 1 (10.0.0.1); start these nodes; if they are lost for good: docs/clusters.md#restore",
		"www": "3 of 3 voters of etcd answer and have no leader, so etcd accepts no writes; if this lasts, check the network between them",
		"dww": "2 of 3 voters of etcd answer and have no leader, so etcd accepts no writes; if this lasts, check the network between them",
		"hhw": "",
		"ddh": "2 of 3 voters of etcd do not serve, so there is no majority and etcd accepts no writes: 0 (10.0.0.1), 1 (10.0.0.1); start these nodes; if they are lost for good: docs/clusters.md#restore",
	} {
		var all []Voter
		for i, v := range voters {
			all = append(all, Voter{Name: string(rune('0' + i)), Address: "10.0.0.1", Healthy: v == 'h', Waits: v == 'w'})
		}
		if got := NoMajority(all); got != want {
			t.Errorf("%s: got %q, want %q", voters, got, want)
		}
	}
}

func TestReportedMember(t *testing.T) {
	record := Record{ID: "b", Alive: true, Presence: Presence{Warnings: []Warning{
		{Reason: MemberDown, Subject: "c", Message: "of another node"},
		{Reason: MemberDown, Message: MemberCannotBeUsed + "no space left on device"},
	}}}
	if got := ReportedMember(record); got != "no space left on device" {
		t.Errorf("got %q", got)
	}
	record.Alive = false
	if got := ReportedMember(record); got != "" {
		t.Errorf("not alive: got %q", got)
	}
}
