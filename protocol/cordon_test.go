package protocol

import (
	"strings"
	"testing"
	"time"
)

// A cordon closes the gate whatever the status is, and does not hide what has to be
// repaired first.
func TestJudge_cordoned(t *testing.T) {
	registered := Registration{Matches: true, Controller: true, Cordon: Cordon{Until: time.Unix(0, 0), Message: "etcd upgrade"}}
	admits := StatusView{Kind: StatusPresent, Status: Status{State: Done, Version: ver("1.0.0"), MinCompatible: rel("1.0.0")}}
	fits := Facts{Reached: true, Local: Local{ID: "me", Version: ver("1.0.0")}, Registration: registered, Status: admits, Served: true}
	for _, tc := range []struct {
		name   string
		change func(*Facts)
		want   Reason
	}{
		{"a node that fits", func(*Facts) {}, Cordoned},
		{"a node that serves while the status is lost", func(f *Facts) { f.Status = absentStatus() }, Cordoned},
		{"the status was not read yet", func(f *Facts) { f.Status = StatusView{} }, Cordoned},
		{"the cordon was removed", func(f *Facts) { f.Registration.Cordon = Cordon{} }, Ready},
		{"without the role", func(f *Facts) { f.Registration.Controller = false }, NotController},
		{"not registered", func(f *Facts) { f.Registration.Matches = false }, NotRegistered},
		{"etcd was not reached", func(f *Facts) { f.Reached = false }, Starting},
		{"stopping", func(f *Facts) { f.Stopping = true }, ShuttingDown},
	} {
		f := fits
		tc.change(&f)
		if got := Judge(f); got.Reason != tc.want || got.Ready != (tc.want == Ready) {
			t.Errorf("%s: got %+v, want %s", tc.name, got, tc.want)
		}
	}
	if got := Judge(fits).Message; !strings.Contains(got, "until 1970-01-01T00:00:00Z (etcd upgrade); to end that now: sidecar uncordon me") {
		t.Errorf("the message does not say how long, why, and what to do: %s", got)
	}
}

// A node that was just taken out of service may serve for a moment: leaders wait for it.
func TestBlockers_cordoned(t *testing.T) {
	next := doneStatus("1.1.0")
	f := Fleet{Records: []*Record{controller("old", "1.0.0").cordoned()}}
	if got := Blockers(doneStatus("1.0.0"), next, f, upgradeIt); len(got) != 1 || got[0].Node != "old" {
		t.Errorf("got %v, want the node with the cordon", got)
	}
}

func TestJudgeCordon(t *testing.T) {
	f := Fleet{Records: []*Record{
		controller("cordoned", "1.0.0").ready().cordoned(), controller("corrupt", "1.0.0").ready().corrupt("garbage"),
		controller("closed", "1.0.0"), controller("dead", "1.0.0").ready().dead(), controller("me", "1.0.0").ready(),
		controller("worker", "1.0.0").ready().worker(), controller("overridden", "1.0.0").overridden(),
		controller("both", "1.0.0").cordoned().overridden(),
	}}
	if relies, allowed := JudgeCordon(f, "me"); relies != nil || allowed {
		t.Errorf("the last node in service: got %v, %t", relies, allowed)
	}
	if _, allowed := JudgeCordon(f, "both"); !allowed {
		t.Error("a node that is open by an override: another one serves, and it is not allowed")
	}
	if relies, allowed := JudgeCordon(f, "closed"); relies != nil || !allowed {
		t.Errorf("a node that does not serve: got %v, %t", relies, allowed)
	}
	down := controller("down", "1.0.0").ready()
	down.Presence.Endpoint = Endpoint{Address: "10.0.0.9", Port: 6443, Down: true}
	f.Records = append(f.Records, down)
	if relies, allowed := JudgeCordon(f, "me"); relies != nil || allowed {
		t.Errorf("the kube-apiserver of the other node is not ready: got %v, %t", relies, allowed)
	}
	f.Records = append(f.Records, controller("z", "1.0.0").ready())
	if relies, allowed := JudgeCordon(f, "me"); !allowed || relies == nil || relies.ID != "z" {
		t.Errorf("got %v, %t, want z", relies, allowed)
	}
}

func TestCordon_Over(t *testing.T) {
	now := time.Unix(1000, 0)
	for until, want := range map[time.Time]bool{{}: false, now.Add(time.Second): false, now: true, now.Add(-time.Second): true} {
		if got := (Cordon{Until: until, Message: "x"}).Over(now); got != want {
			t.Errorf("until %s: got %t", until, got)
		}
	}
}

// What a node reports of its kube-apiserver keeps it out of service, with or without an
// endpoint, and the reason is what its sidecar says.
func TestRecord_Serves(t *testing.T) {
	why := func(r *Record) Reason { reason, _ := r.WhyServes(); return reason }
	ready, down := cp("a").ready(), cp("b").ready()
	down.Presence.APIServerDown = true
	refused := cp("c").ready()
	refused.Presence.APIServerDown = true
	refused.Presence.Warnings = []Warning{{Reason: APIServerNotReady, Subject: "d", Message: "of d"}, {Reason: APIRefused, Message: "401"}}
	older := cp("e").at("10.0.0.5", "").down()
	for _, tt := range []struct {
		record *Record
		serves bool
		reason Reason
	}{
		{ready, true, Ready}, {down, false, APIServerNotReady}, {refused, false, APIRefused}, {older, false, APIServerNotReady},
		{cp("f").ready().closed(ReleaseTooOld), false, ReleaseTooOld}, {cp("g").ready().cordoned().overridden(), true, Overridden},
	} {
		if tt.record.Serves() != tt.serves || why(tt.record) != tt.reason {
			t.Errorf("%s: got %t, %s, want %t, %s", tt.record.ID, tt.record.Serves(), why(tt.record), tt.serves, tt.reason)
		}
	}
	if _, message := refused.WhyServes(); message != "401" {
		t.Errorf("got %q", message)
	}
	// No cordon relies on a node that does not serve.
	if _, allowed := JudgeCordon(Fleet{Records: []*Record{ready, down}}, "a"); allowed {
		t.Error("the last node that serves may be cordoned")
	}
}
