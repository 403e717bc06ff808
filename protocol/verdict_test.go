package protocol

import "testing"

func TestJudge(t *testing.T) {
	registered := Registration{Matches: true, Controller: true, Revision: 10}
	fits := presentStatus(Status{State: Working, Version: ver("1.1.0"), MinCompatible: rel("1.0.0")})
	local := Local{ID: "me", Version: ver("1.1.0"), Constraints: Constraints{MinReconciler: rel("1.0.0")}}
	well := Facts{Reached: true, Registration: registered, Status: fits, Local: local}
	with := func(change func(*Facts)) Facts {
		f := well
		change(&f)
		return f
	}
	for _, tc := range []struct {
		name  string
		facts Facts
		want  Reason
	}{
		{"nothing known", Facts{}, Starting},
		{"well", well, Ready},
		{"etcd was never reached", with(func(f *Facts) { f.Reached = false }), Starting},
		{"not registered", with(func(f *Facts) { f.Registration = Registration{} }), NotRegistered},
		{"another kube-apiserver", with(func(f *Facts) { f.Registration, f.APIServer = Registration{}, "another" }), OtherAPIServer},
		{"another kube-apiserver, registered", with(func(f *Facts) { f.APIServer = "another" }), Ready},
		{"services win over the kube-apiserver", with(func(f *Facts) {
			f.Registration, f.APIServer, f.Services = Registration{}, "another", "a service is not ready"
		}), ServicesNotReady},
		{"fenced wins over the kube-apiserver", with(func(f *Facts) { f.Registration, f.APIServer = Registration{Overdue: true}, "another" }), Fenced},
		{"not registered wins over the role", with(func(f *Facts) { f.Registration.Matches, f.Registration.Controller = false, false }), NotRegistered},
		{"fenced", with(func(f *Facts) { f.Registration = Registration{Overdue: true} }), Fenced},
		{"fenced though it served", with(func(f *Facts) { f.Registration, f.Served = Registration{Overdue: true}, true }), Fenced},
		{"stopping while fenced", with(func(f *Facts) { f.Registration, f.Stopping = Registration{Overdue: true}, true }), ShuttingDown},
		{"no role", with(func(f *Facts) { f.Registration.Controller = false }), NotController},
		{"status not read since the registration", with(func(f *Facts) { f.Status = StatusView{} }), NotRegistered},
		{"not even where it served before", with(func(f *Facts) { f.Status, f.Served = StatusView{}, true }), NotRegistered},
		{"no status", with(func(f *Facts) { f.Status = absentStatus() }), StatusMissing},
		{"status lost while it serves", with(func(f *Facts) { f.Status, f.Served = absentStatus(), true }), Ready},
		{"corrupt status", with(func(f *Facts) { f.Status = corruptStatus() }), StatusCorrupt},
		{"status corrupted while it serves", with(func(f *Facts) { f.Status, f.Served = corruptStatus(), true }), Ready},
		{"release too old", with(func(f *Facts) { f.Status.Status.MinCompatible = rel("1.1.1") }), ReleaseTooOld},
		{"also where it served before", with(func(f *Facts) { f.Status.Status.MinCompatible, f.Served = rel("1.1.1"), true }), ReleaseTooOld},
		{"reconciler too old", with(func(f *Facts) { f.Local.Constraints.MinReconciler = rel("1.1.1") }), ReconcilerTooOld},
		{"duplicate", with(func(f *Facts) { f.Duplicate = "another" }), DuplicateNodeID},
		{"stopping wins", with(func(f *Facts) { f.Stopping, f.Duplicate = true, "another" }), ShuttingDown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := Judge(tc.facts)
			if v.Reason != tc.want || v.Ready != (tc.want == Ready) {
				t.Errorf("got %+v, want %s", v, tc.want)
			}
			if v.Message == "" {
				t.Error("the verdict does not say why")
			}
		})
	}
}
