package upgrade

import (
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

func TestVoterObstacles(t *testing.T) {
	for _, tt := range []struct {
		voters string // one letter each: h is healthy
		want   string // indexes of those that hold the upgrade
	}{
		{"", ""},
		{"h", ""},
		{"hh", ""},
		{"hd", "1"},
		{"hhh", ""},
		{"hdh", "1"},
		{"ddh", "01"}, // etcd does not answer then, either
		{"hhdh", "2"},
		{"hhhhd", ""}, // three answer while one is upgraded
		{"dhhhd", "04"},
	} {
		var voters []protocol.Voter
		for i, v := range tt.voters {
			voters = append(voters, protocol.Voter{Name: strconv.Itoa(i), Address: "10.0.0.1", Healthy: v == 'h', Trouble: "trouble of " + strconv.Itoa(i)})
		}
		got := ""
		for _, o := range VoterObstacles(voters) {
			got += o.Subject
			if o.Reason != warn.MemberDown || o.Message != "trouble of "+o.Subject+"; an upgrade stops another voter, and etcd would accept no writes meanwhile" {
				t.Errorf("%s: got %+v", tt.voters, o)
			}
		}
		if got != tt.want {
			t.Errorf("%s: held by %q, want %q", tt.voters, got, tt.want)
		}
	}
}

// The size of a fleet is no obstacle, and there is a note about it.
func TestNotes(t *testing.T) {
	const stop = "etcd, and each kube-apiserver that uses it, stop during the upgrade; "
	a, b, c := controller("a", "1.1.0").leading().member(), controller("b", "1.1.0").serving().member(), controller("c", "1.1.0").serving()
	none := controller("d", "1.1.0").serving().roleTaken()
	for _, tc := range []struct {
		name    string
		records []*record
		voters  string
		want    string
	}{
		{"three voters", []*record{a, b, c.member()}, "abc", ""},
		{"etcd runs elsewhere", []*record{a, b}, "", ""},
		{"two voters", []*record{a, b}, "ab", stop + "add a third voter: sidecar cluster token create"},
		{"two voters, and a node that could be one", []*record{a, b, c}, "ab", stop + "add a third voter: sidecar node set-roles c --add consensus_member"},
		{"one voter of two nodes", []*record{a, c}, "a", stop + "add two voters: sidecar node set-roles c --add consensus_member"},
		{"one alone", []*record{c}, "", "c is the only controller, so no kube-apiserver serves while it is upgraded; add a second one: start a kube-apiserver and its sidecar on another machine"},
		{"one alone, with an etcd of its own", []*record{a}, "a", stop + "add two voters: sidecar cluster token create|a is the only controller, so no kube-apiserver serves while it is upgraded; each node that joins is one more"},
		{"two voters, and a node without roles", []*record{a, b, none}, "ab", stop + "add a third voter: sidecar node set-roles d --add consensus_member"},
		{"one controller, and a node without roles", []*record{c, none}, "", "c is the only controller, so no kube-apiserver serves while it is upgraded; add a second one: sidecar node set-roles d --add kubernetes_controller"},
		{"a node without roles that is not alive", []*record{c, controller("d", "1.1.0").worker().dead()}, "", "c is the only controller, so no kube-apiserver serves while it is upgraded; add a second one: start a kube-apiserver and its sidecar on another machine"},
		{"a dead node is not missing for good", []*record{a, c.dead()}, "", ""},
		{"four voters", []*record{a, b, c}, "abcd", ""},
	} {
		var voters []protocol.Voter
		for _, v := range tc.voters {
			voters = append(voters, protocol.Voter{Name: string(v), Healthy: true})
		}
		got := Judge(Facts{Status: presentStatus(protocol.Status{State: protocol.Done, Version: ver("1.1.0")}), Fleet: protocol.Fleet{Records: of(tc.records...)}, Voters: voters})
		if text := strings.Join(got.Notes, "|"); text != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, text, tc.want)
		}
		for _, o := range got.Obstacles {
			if o.Reason == warn.MemberDown {
				t.Errorf("%s: got %+v", tc.name, o)
			}
		}
	}
}

func TestJudge_etcd(t *testing.T) {
	facts := Facts{Status: presentStatus(protocol.Status{State: protocol.Done, Version: ver("1.1.0")}), Fleet: protocol.Fleet{Records: of(controller("a", "1.1.0").leading())}}
	if got := Judge(facts); !got.Ready() || len(got.Notes) != 1 {
		t.Errorf("got %+v", got)
	}
	facts.Full = true
	if got := Judge(facts); got.Ready() || got.Obstacles[0].Reason != warn.EtcdFull {
		t.Errorf("etcd is full: got %+v", got)
	}
	facts.Unreachable = true
	if got := Judge(facts); len(got.Obstacles) != 1 || got.Obstacles[0].Reason != warn.EtcdUnreachable || got.Notes != nil {
		t.Errorf("etcd does not answer: got %+v", got)
	}
}
