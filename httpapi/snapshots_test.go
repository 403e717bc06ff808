package httpapi

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/trace"
)

// state is a snapshot in one state of the gate.
type state struct {
	name string
	snap Snapshot
}

var epochTime = time.Date(2026, 3, 4, 5, 6, 7, 890_123_456, time.UTC)

// states has the gate in every state, as protocol.Judge gives them.
func states(t *testing.T) []state {
	t.Helper()
	local := protocol.Local{
		ID:          "cp-1",
		Version:     mustVersion(t, "1.1.0-rc.1+g0abc"),
		Constraints: protocol.Constraints{MinReconciler: mustRelease(t, "1.0.0"), MinAPIServer: mustRelease(t, "1.0.0")},
		Digest:      "sha256:6c70f1",
		Bundle:      "acme",
	}
	registered := protocol.Registration{Controller: true, Matches: true, Revision: 7}
	valid := protocol.Facts{Reached: true, Local: local, Registration: registered, Status: presentStatus(t, "1.1.0", "1.0.0")}
	but := func(f func(*protocol.Facts)) protocol.Facts {
		out := valid
		f(&out)
		return out
	}
	facts := []struct {
		name  string
		facts protocol.Facts
	}{
		{"ready", valid},
		{"starting", protocol.Facts{Local: local}},
		{"not controller", but(func(f *protocol.Facts) { f.Registration.Controller = false })},
		{"fenced", but(func(f *protocol.Facts) { f.Registration = protocol.Registration{Overdue: true} })},
		{"services not ready", but(func(f *protocol.Facts) { f.Services = `service "kube-apiserver" is not ready` })},
		{"not registered", but(func(f *protocol.Facts) { f.Registration = protocol.Registration{} })},
		{"registered but the status not read since", but(func(f *protocol.Facts) { f.Status = protocol.StatusView{} })},
		{"status missing", but(func(f *protocol.Facts) { f.Status = protocol.StatusView{Kind: protocol.StatusAbsent} })},
		{"status corrupt", but(func(f *protocol.Facts) { f.Status = corruptStatus() })},
		{"release too old", but(func(f *protocol.Facts) { f.Status = presentStatus(t, "1.2.0", "1.2.0") })},
		{"reconciler too old", but(func(f *protocol.Facts) { f.Status = presentStatus(t, "0.9.0", "0.9.0") })},
		{"overridden", but(func(f *protocol.Facts) {
			f.Status, f.Override = presentStatus(t, "1.2.0", "1.2.0"), protocol.Override{Until: time.Unix(1e9, 0), Message: "no storage"}
		})},
		{"duplicate node ID", but(func(f *protocol.Facts) { f.Duplicate = "cp-1 is held by 10.0.0.9 since noon" })},
		{"shutting down", but(func(f *protocol.Facts) { f.Stopping = true })},
		{"shutting down before etcd was reached", protocol.Facts{Stopping: true, Local: local}},
		{"ready on what was last known", but(func(f *protocol.Facts) {
			f.Status, f.Served = protocol.StatusView{Kind: protocol.StatusAbsent}, true
		})},
	}
	out := []state{{name: "zero"}}
	for _, f := range facts {
		out = append(out, state{f.name, snapshotOf(t, f.facts, protocol.Judge(f.facts))})
	}
	return out
}

func snapshotOf(t *testing.T, f protocol.Facts, v protocol.Verdict) Snapshot {
	t.Helper()
	s := Snapshot{
		Local: f.Local, Roles: protocol.Roles{Controller: f.Registration.Controller, Consensus: true}, Address: "http://127.0.0.1:8086",
		BundleSource: "built-in", Registration: f.Registration,
		Gate: Gate{Verdict: v, Since: epochTime}, Override: f.Override,
		Status: f.Status, StatusUpdatedAt: epochTime,
		Etcd: Etcd{Reached: f.Reached, Etcd: report.Etcd{Connected: f.Reached}},
	}
	if !f.Reached {
		return s
	}
	s.Etcd.LastContact, s.Etcd.Revision, s.Etcd.Warnings = report.At(epochTime), 12, []string{"etcd 3.5.0 has known faults"}
	s.Fleet = fleetOfThree(t)
	if s.Status.Kind == protocol.StatusPresent {
		s.Status.Status.Bundle = "base"
		s.Replacement = protocol.Replacement{From: "base", To: "acme", Since: epochTime, Revision: 9}
	}
	s.Election = Election{
		State: protocol.Leading, Since: epochTime, Leader: "cp-1", Epoch: 5, Eligibility: protocol.Eligibility{Eligible: true},
		Step: protocol.Step{
			Kind: protocol.StepAwait, Rule: protocol.WaitForNodes, Message: "2 registered nodes do not fit",
			Blockers: []protocol.Blocker{
				{Node: "cp-2", Release: mustRelease(t, "0.9.0"), Reason: protocol.ReleaseTooOld, Message: "upgrade it"},
				{Node: "cp-3", Reason: protocol.RecordCorrupt, Message: "remove it"},
			},
		},
		Absences: map[protocol.NodeID]report.Absence{"cp-2": {GoneSince: report.At(epochTime), PassedOverAt: report.At(epochTime.Add(time.Minute))}, "cp-9": {GoneSince: report.At(epochTime)}},
	}
	s.Reconcile = report.Reconcile{
		LastSuccess: report.At(epochTime), LastError: "apply StorageClass \"x\": refused", DurationSeconds: 1.5,
		Objects:   report.Objects{Desired: 7, Fence: 2, Applied: 1, Unchanged: 2, Failed: 1, Pruned: 3, Owed: 4},
		PruneHeld: "the bundle is empty",
		Strangers: []report.Stranger{{Object: `ServiceAccount "n/s"`, Manager: "kubectl", Command: "kubectl delete serviceaccounts --namespace=n -- s"}}, TotalStrangers: 12,
		Drift: report.Drift{
			Watching: true, Problem: "cannot watch", Repairs: 12, LastRepair: report.At(epochTime),
			Fights: []report.Fight{
				report.Fight{Object: `ConfigMap "n/a"`, Manager: "kubectl-edit", Fields: []string{".data.x"}, Repairs: 9, Since: report.At(epochTime), LastRepair: report.At(epochTime)}.Explained(),
				report.Fight{Object: `ConfigMap "n/b"`, Repairs: 5, Since: report.At(epochTime)}.Explained(),
			},
		},
	}
	s.Reconcile.AddFailure(report.Failure{Object: `StorageClass "x"`, Message: "refused", Source: "x.yaml:3", Since: report.At(epochTime)})
	s.Reconcile.TotalFailures = 51
	s.Certificates = []report.Certificate{
		{Use: "etcd-client", File: "/etcd.crt", Expires: report.At(epochTime)}, {Use: "serving", File: "/tls.crt", Problem: "no PEM certificate"},
	}
	s.Warnings = []protocol.Warning{
		{Reason: warn.RemovalsHeld, Message: "the bundle is empty", Since: epochTime},
		{Reason: warn.NodeDead, Subject: "cp-2", Message: "sidecar node remove cp-2 --confirm-stopped"},
	}
	s.EtcdFlags = " --etcd-servers=http://10.0.0.1:2379"
	s.Etcd.Endpoints = []string{"http://10.0.0.1:2379"}
	s.Cluster = Cluster{
		Cluster: report.Cluster{
			State: "Running", Since: report.At(epochTime), Error: "no space left on device",
			Transitions: []report.Transition{{From: "New", To: "CreatingCluster", At: report.At(epochTime)}, {From: "CreatingCluster", To: "Running", At: report.At(epochTime)}},
			Members: []report.Member{
				{ID: "8e9e05c52164694d", Node: "cp-1", Address: "10.0.0.1", Problem: "it does not answer", Since: report.At(epochTime)},
				{ID: "91bc3c398fb3c146", Address: "10.0.0.2", Learner: true, Leader: true, Healthy: true},
			},
			Rotation: report.Rotation{Phase: "Trusting", Since: report.At(epochTime), Turn: "cp-1", WaitsFor: []string{"cp-1", "cp-2"}, Problem: "no answer"},
		},
		MemberProblem: "no space left on device",
		Voters: []protocol.Voter{
			{Name: "cp-1", Address: "10.0.0.1", Trouble: "if the node is off for good, type on another node: sidecar cluster remove cp-1"},
		},
	}
	s.Endpoints = report.Endpoints{
		Enabled: true, Reason: "Published", Message: "in place", Since: report.At(epochTime), Problem: "refused", Revision: 7, Addresses: []string{"10.0.0.1", "fd00::1"},
		Nodes: []report.EndpointsNode{
			{ID: "a", Addresses: []string{"10.0.0.1", "fd00::1"}, Port: 6443, Serves: true, Reason: "Ready", Message: "open"},
			{ID: "b", Reason: "NoPresence", Message: "off"},
		},
	}
	s.LocalRoles = report.Roles{Local: []string{protocol.RoleController, protocol.RoleConsensus}, Source: "disk", Since: report.At(epochTime)}
	s.Services = []report.Service{
		{
			Name: "kube-apiserver", Role: protocol.RoleController, Driver: "process", Phase: "Running", Ready: true, Since: report.At(epochTime),
			Restarts: 2, LastExit: "exit status 1", Required: true,
		},
		{Name: "haproxy", Role: protocol.RoleController, Driver: "systemdUnit", Phase: "Stopped", Problem: "refused", File: "/etc/20.yaml", Changed: report.At(epochTime)},
	}
	return s
}

func fleetOfThree(t *testing.T) protocol.Fleet {
	t.Helper()
	controller := protocol.Roles{Controller: true}
	return protocol.Fleet{Revision: 11, Records: []*protocol.Record{
		{
			ID: "cp-1", Node: protocol.Node{ID: "cp-1", Roles: controller, Version: mustVersion(t, "1.1.0"), Address: "http://10.0.0.1:8086", Digest: "sha256:6c70f1"},
			Alive: true, Presence: protocol.Presence{
				Ready: true, Reason: protocol.Ready, Election: protocol.Leading, Host: "one", Warnings: []protocol.Warning{{Message: "look"}},
			},
		},
		{ID: "cp-2", Node: protocol.Node{ID: "cp-2", Roles: controller, Version: mustVersion(t, "0.9.0")}},
		{ID: "cp-3", Problem: "not a Node"},
	}}
}

func presentStatus(t *testing.T, version, minimum string) protocol.StatusView {
	t.Helper()
	return protocol.StatusView{Kind: protocol.StatusPresent, Revision: 9, Status: protocol.Status{
		State: protocol.Working, Version: mustVersion(t, version), MinCompatible: mustRelease(t, minimum),
		Leader: "cp-2", Epoch: 4, DrainedEpoch: 3, Digest: "sha256:91be02", ContentRelease: mustRelease(t, version), ContentEpoch: 2,
	}}
}

func corruptStatus() protocol.StatusView {
	return protocol.StatusView{Kind: protocol.StatusUndecodable, Problem: "unexpected end", Revision: 8}
}

func mustVersion(t *testing.T, s string) protocol.Version {
	t.Helper()
	v, err := semver.ParseVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustRelease(t *testing.T, s string) protocol.Release {
	t.Helper()
	return mustVersion(t, s).Release
}

// fixture is a server, and what its answers rest on.
type fixture struct {
	*Server
	snapshot *event.Value[Snapshot]
	registry *prometheus.Registry
}

// newFixture returns a server that shows snap. Each change applies to the Config
// first.
func newFixture(t *testing.T, snap Snapshot, changes ...func(*Config)) fixture {
	t.Helper()
	f := fixture{snapshot: event.New(snap), registry: prometheus.NewRegistry()}
	cfg := Config{
		Snapshot: f.snapshot, Log: slog.New(slog.DiscardHandler),
		Registerer: f.registry, Metrics: promhttp.HandlerFor(f.registry, promhttp.HandlerOpts{}),
		Build:     Build{Version: "0.1.0", Commit: "0abc123-dirty", Date: "2026-11-21T08:00:00Z"},
		OpenAPI:   description(t),
		Flags:     []Flag{{"node-id", "cp-1"}, {"listen", "127.0.0.1:8086"}},
		Recording: trace.NewRecorder(1000).WriteTo,
		History:   func(context.Context) []history.Entry { return happened() },
	}
	for _, apply := range changes {
		apply(&cfg)
	}
	var err error
	if f.Server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return f
}

// happened is a history with each kind, of which the last goes on.
func happened() []history.Entry {
	var out []history.Entry
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for i, kind := range history.Kinds() {
		at = at.Add(time.Minute)
		e := history.Entry{Time: at, Until: at.Add(time.Second), Kind: kind, Node: "cp-1", Reason: protocol.Cordoned, Message: "m", Count: i + 1}
		if i == len(history.Kinds())-1 {
			e.Until = time.Time{}
		}
		out = append(out, e)
	}
	return out
}

// description is the text of openapi.yaml.
func description(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// passingSnapshot returns a snapshot with which all checks pass.
func passingSnapshot(t *testing.T) Snapshot {
	t.Helper()
	for _, st := range states(t) {
		if now := NewStatus(st.snap); now.Ready.Ready && now.Ready.Serves {
			return st.snap
		}
	}
	t.Fatal("no snapshot passes")
	return Snapshot{}
}
