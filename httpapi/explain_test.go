package httpapi

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

func TestPasteable(t *testing.T) {
	s := Snapshot{EtcdFlags: " --etcd-servers=E"}
	for message, want := range map[string]string{
		"x (sidecar node remove a --confirm-stopped)":                     "x (sidecar node remove a --confirm-stopped --etcd-servers=E)",
		"sidecar node set-roles a.b --add kubernetes_controller":          "sidecar node set-roles a.b --add kubernetes_controller --etcd-servers=E",
		"to take over: sidecar store adopt; or not":                       "to take over: sidecar store adopt --etcd-servers=E; or not",
		"for good: sidecar store adopt --id 00ff":                         "for good: sidecar store adopt --id 00ff --etcd-servers=E",
		"for good: sidecar cluster remove cp-2; and more":                 "for good: sidecar cluster remove cp-2 --etcd-servers=E; and more",
		"sidecar node set-roles a --remove consensus_member":              "sidecar node set-roles a --remove consensus_member --etcd-servers=E",
		"type sidecar cluster token create --node c; or not":              "type sidecar cluster token create --node c --etcd-servers=E; or not",
		"remove it (sidecar cluster remove), then":                        "remove it (sidecar cluster remove), then",
		"it is complete: sidecar uncordon a --etcd-servers=E":             "it is complete: sidecar uncordon a --etcd-servers=E",
		"cordon it: sidecar cordon a; or not":                             "cordon it: sidecar cordon a --etcd-servers=E; or not",
		"the sidecar is starting":                                         "the sidecar is starting",
		"its sidecar node is old":                                         "its sidecar node is old",
		"sidecar node remove n-1.x --confirm-stopped":                     "sidecar node remove n-1.x --confirm-stopped --etcd-servers=E",
		(&protocol.Record{ID: "c", Problem: "p"}).Remedy() + ", and more": "p; its sidecar writes it again if it is alive; if the node has stopped for good: sidecar node remove c --confirm-stopped --etcd-servers=E, and more",
	} {
		if got := s.pasteable(message); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if got := (Snapshot{}).pasteable(message); got != message {
			t.Errorf("without flags: got %s", got)
		}
	}
}

// While etcd answers, a node whose registration was lost does not wait for etcd.
func TestVerdict_fenced(t *testing.T) {
	s := Snapshot{Gate: Gate{Verdict: protocol.Verdict{Reason: protocol.Fenced, Message: "fenced; " + protocol.RegistersAgain}}}
	for _, tt := range []struct {
		connected bool
		services  []report.Service
		want      string
	}{
		{false, nil, "fenced; it registers again when etcd answers"},
		{true, nil, "fenced; etcd answers again: it registers in a moment"},
		{true, []report.Service{{Name: "x", Ready: true}, {Name: "kube-apiserver"}}, "fenced; etcd answers again: it registers when its services are ready: kube-apiserver (see SERVICES)"},
	} {
		s.Etcd.Connected, s.Services = tt.connected, tt.services
		if got := verdict(s).Message; got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// Every message of the election can be pasted, that of the step too.
func TestNewReport_pasteableElection(t *testing.T) {
	const command = "sidecar store adopt --id 00ff"
	now := NewStatus(Snapshot{EtcdFlags: " --etcd-servers=E", Election: Election{
		State: protocol.Leading, Step: protocol.Step{Kind: protocol.StepHold, Message: command}, Eligibility: protocol.Eligibility{Message: command},
	}})
	for _, got := range []string{now.Election.Step.Message, now.Election.Message} {
		if want := command + " --etcd-servers=E"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The gate says what it waits for, as far as this sidecar knows it.
func TestVerdictSaysTheCause(t *testing.T) {
	leads := &protocol.Record{ID: "b", Alive: true, Presence: protocol.Presence{
		Election: protocol.Leading, Warnings: []protocol.Warning{{Subject: `ConfigMap "x"`, Message: "rejected"}},
	}}
	withdrew := &protocol.Record{ID: "c", Alive: true, Presence: protocol.Presence{
		Election: protocol.Withdrawn, Warnings: []protocol.Warning{{Message: "no rights"}},
	}}
	missing := Gate{Verdict: protocol.Verdict{Reason: protocol.StatusMissing, Message: "missing"}}
	connected := Etcd{Reached: true, Etcd: report.Etcd{Connected: true}}
	own := protocol.Local{ID: "a"}
	for want, s := range map[string]Snapshot{
		`missing; b leads: ConfigMap "x": rejected`:          {Local: own, Gate: missing, Etcd: connected, Fleet: protocol.Fleet{Records: []*protocol.Record{leads, withdrew}}},
		"missing; no node leads: c has withdrawn: no rights": {Local: own, Gate: missing, Etcd: connected, Fleet: protocol.Fleet{Records: []*protocol.Record{withdrew}}},
		"missing; no node leads at the moment":               {Local: own, Gate: missing, Etcd: connected},
		"missing":                                            {Local: own, Gate: missing},
		"missing; no node leads: this node has withdrawn: forbidden": {Local: own, Gate: missing, Etcd: connected, Election: Election{
			State: protocol.Withdrawn, Eligibility: protocol.Eligibility{Message: "forbidden"}}},
		"missing; this node leads: 1 of 5 objects failed in its last pass (see FAILURES)": {Local: own, Gate: missing, Etcd: connected,
			Election: Election{State: protocol.Leading}, Reconcile: report.Reconcile{TotalFailures: 1, Objects: report.Objects{Desired: 5}}},
		"missing; this node leads: it waits for x, y (see BLOCKERS)": {Local: own, Gate: missing, Etcd: connected,
			Election: Election{State: protocol.Leading, Step: protocol.Step{Blockers: []protocol.Blocker{{Node: "x"}, {Node: "y"}}}}},
		"etcd has not been reached yet: http://e: closed": {
			Gate: Gate{Verdict: protocol.Verdict{Reason: protocol.Starting, Message: "etcd has not been reached yet"}}, Etcd: Etcd{Etcd: report.Etcd{Problem: "http://e: closed"}}},
	} {
		if got := verdict(s).Message; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// A node that has lost etcd does not pass off what it last knew as the truth.
func TestReportWithoutEtcd(t *testing.T) {
	s := Snapshot{Election: Election{State: protocol.Ineligible}, Etcd: Etcd{Reached: true, Etcd: report.Etcd{LastContact: report.At(epochTime)}}}
	got := NewStatus(s)
	if got.Election.State != "unknown" || got.Election.Reason != "EtcdUnreachable" || got.UpgradeReady || got.UpgradeObstacles[0].Reason != "EtcdUnreachable" {
		t.Errorf("got %+v, %+v", got.Election, got.UpgradeObstacles)
	}
	s.Election.State = protocol.Leading // by a lease that has not ended
	if got := NewStatus(s).Election.State; got != "leading" {
		t.Errorf("got %s, want what it knows by itself", got)
	}
	s.Gate.Verdict = protocol.Verdict{Ready: true, Reason: protocol.Ready}
	body, ok := renderChecks(checks(s), nil)
	if want := "[+]etcd ok, but the verdict is the last known one: etcd has not answered since 2026-03-04T05:06:07Z\n"; !ok || !strings.Contains(body, want) {
		t.Errorf("got %t %s", ok, body)
	}
}

// A fleet that is settled is not enough: a node that is upgraded has to register.
func TestReportWithFullEtcd(t *testing.T) {
	settled := states(t)[1].snap
	settled.Etcd.Connected = true
	before := len(judgeUpgrade(settled).Obstacles)
	settled.Etcd.Full = true
	got := NewStatus(settled)
	if got.UpgradeReady || len(got.UpgradeObstacles) != before+1 || got.UpgradeObstacles[0].Reason != "EtcdFull" {
		t.Errorf("got %t, %+v", got.UpgradeReady, got.UpgradeObstacles)
	}
}

// Other nodes know the blockers by the leader's presence.
func TestReportedBlockers(t *testing.T) {
	f := protocol.Fleet{Records: []*protocol.Record{
		{ID: "a", Alive: true, Presence: protocol.Presence{Election: protocol.Leading, Warnings: []protocol.Warning{
			{Reason: protocol.ReleaseTooOld, Subject: "b"}, {Reason: warn.ObjectFailed, Subject: "c"},
		}}},
		{ID: "b"}, {ID: "c"},
		{ID: "d", Alive: true, Presence: protocol.Presence{Warnings: []protocol.Warning{{Reason: protocol.ReleaseTooOld, Subject: "d"}}}},
	}}
	for _, n := range NewStatus(Snapshot{Fleet: f}).Fleet.Nodes {
		if n.Blocks != (n.ID == "b") {
			t.Errorf("%s: got blocks %t", n.ID, n.Blocks)
		}
	}
}

// The command that ends an override has the file of this sidecar.
func TestVerdict_endsOverride(t *testing.T) {
	o := protocol.Verdict{Ready: true, Reason: protocol.Overridden, Message: "OVERRIDDEN; to end that: sidecar override end"}
	got := verdict(Snapshot{Gate: Gate{Verdict: o}, OverrideFlag: " --override-file=/x"}).Message
	if want := "OVERRIDDEN; to end that: sidecar override end --override-file=/x"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The first node that goes back waits only for its own leader: people need not do anything.
func TestVerdict_rollingBack(t *testing.T) {
	own := protocol.Release{Major: 1}
	s := Snapshot{Local: protocol.Local{Version: protocol.Version{Release: own}}, Gate: Gate{Verdict: protocol.Verdict{
		Reason: protocol.ReleaseTooOld, Message: "release 1.0.0 is below 1.1.0; " + protocol.UpgradeOrRollBack + "1.0.0",
	}}}
	for _, tt := range []struct {
		to   protocol.Release
		want string
	}{
		{own, "release 1.0.0 is below 1.1.0; the rollback to 1.0.0 is under way, and its leader restores the objects of that release"},
		{protocol.Release{Minor: 9}, s.Gate.Verdict.Message},
		{protocol.Release{}, s.Gate.Verdict.Message},
	} {
		s.Fleet.Rollback = protocol.Rollback{To: tt.to, Revision: 1}
		if tt.to == (protocol.Release{}) {
			s.Fleet.Rollback = protocol.Rollback{}
		}
		if got := verdict(s).Message; got != tt.want {
			t.Errorf("to %s: got %q, want %q", tt.to, got, tt.want)
		}
	}
}
