package protocol

import (
	"strings"
	"testing"
	"time"
)

// TestJudge_override: an override opens a gate whatever has closed it, except where no
// kube-apiserver is meant to run.
func TestJudge_override(t *testing.T) {
	on := Override{Until: time.Unix(1e9, 0), Message: "no storage"}
	stays := map[Reason]bool{ShuttingDown: true, DuplicateNodeID: true, NotController: true, ServicesNotReady: true, Ready: true}
	seen := map[Reason]bool{}
	registered := Registration{Controller: true, Matches: true, Revision: 1}
	cordoned := registered
	cordoned.Cordon.Message = "work"
	admits := StatusView{Kind: StatusPresent, Status: Status{State: Done}}
	old := admits
	old.Status.MinCompatible = Release{Major: 2}
	needs := Local{Constraints: Constraints{MinReconciler: Release{Major: 1}}, Version: Version{Release: Release{Major: 1}}}
	for _, f := range []Facts{
		{},
		{Stopping: true},
		{Duplicate: "another"},
		{Reached: true},
		{Reached: true, Services: "not yet", Registration: registered},
		{Reached: true, Registration: Registration{Matches: true}},
		{Reached: true, Registration: Registration{Overdue: true}},
		{Reached: true, Registration: cordoned},
		{Reached: true, APIServer: "another kube-apiserver"},
		{Reached: true, Registration: registered, Status: StatusView{Kind: StatusAbsent}},
		{Reached: true, Registration: registered, Status: StatusView{Kind: StatusUndecodable}},
		{Reached: true, Registration: registered, Status: old},
		{Reached: true, Registration: registered, Status: admits, Local: needs},
		{Reached: true, Registration: registered, Status: admits},
	} {
		without := Judge(f)
		seen[without.Reason] = true
		f.Override = on
		got := Judge(f)
		if stays[without.Reason] {
			if got != without {
				t.Errorf("%s: got %+v, want %+v", without.Reason, got, without)
			}
			continue
		}
		if !got.Ready || got.Reason != Overridden || got.Admitted() || !strings.Contains(got.Message, string(without.Reason)+": "+without.Message) ||
			!strings.Contains(got.Message, "until 2001-09-09T01:46:40Z (no storage)") {
			t.Errorf("%s: got %+v", without.Reason, got)
		}
		if ViolatesSteady(got, without) {
			t.Errorf("%s: the end of an override counts as a violation of Steady", without.Reason)
		}
	}
	for _, r := range Reasons() {
		if r != Overridden && !seen[r] {
			t.Errorf("no facts with the verdict %s", r)
		}
	}
}

// Services that are not ready keep the gate closed in spite of an override, although etcd
// was not reached, or the node is fenced: old ones stop only behind a closed gate.
func TestJudge_overrideWithoutServices(t *testing.T) {
	for _, f := range []Facts{
		{Services: "not yet"},
		{Services: "not yet", Reached: true, Registration: Registration{Overdue: true}},
	} {
		f.Override = Override{Until: time.Unix(1e9, 0)}
		if got := Judge(f); got.Ready || got.Reason != ServicesNotReady || !strings.Contains(got.Message, "not yet; the override does not open") {
			t.Errorf("%+v: got %+v", f, got)
		}
		f.Services = ""
		if got := Judge(f); got.Reason != Overridden {
			t.Errorf("the services are ready: got %+v", got)
		}
	}
}

func TestJudgeOverride(t *testing.T) {
	written := time.Unix(1e9, 0)
	for _, test := range []struct {
		name       string
		until, now time.Duration // after it was written
		inForce    bool
		problem    string
	}{
		{name: "it was just written", until: time.Hour, inForce: true},
		{name: "its last moment", until: time.Hour, now: time.Hour - 1, inForce: true},
		{name: "it is over", until: time.Hour, now: time.Hour},
		{name: "the longest", until: MaxOverride, now: time.Hour, inForce: true},
		{name: "longer", until: MaxOverride + 1, problem: "longer than 24h0m0s"},
		{name: "longer, and over", until: MaxOverride + 1, now: 2 * MaxOverride, problem: "longer than 24h0m0s"},
		{name: "no time at all", problem: "its end is not after"},
		{name: "the clock was set back", until: time.Hour, now: -1, problem: "written in the future"},
	} {
		inForce, problem := JudgeOverride(Override{Until: written.Add(test.until)}, written, written.Add(test.now))
		if inForce != test.inForce || (problem == "") != (test.problem == "") || !strings.Contains(problem, test.problem) {
			t.Errorf("%s: got %t, %q", test.name, inForce, problem)
		}
	}
}

// The command that ends an override can be typed for another node too, whose file only its sidecar knows.
func TestEndsOverride(t *testing.T) {
	warning := WarnsOfOverride(Override{Message: "why"}, " --override-file=/x")
	for want, warnings := range map[string][]Warning{
		"type there: sidecar override end --override-file=/x":                       {{Reason: Cordoned}, warning},
		"type there: sidecar override end, with the --override-file of its sidecar": {{Reason: Cordoned, Message: warning.Message}},
	} {
		if got := EndsOverride(warnings); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
