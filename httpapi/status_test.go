package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// TestNewStatus is long: it has every field of a report.
func TestNewStatus(t *testing.T) {
	byName := map[string]Snapshot{}
	for _, st := range states(t) {
		byName[st.name] = st.snap
	}
	when := epochTime.Truncate(time.Millisecond)
	later := when.Add(time.Minute)
	t.Run("has everything that the snapshot has", func(t *testing.T) {
		want := report.Status{
			Node: report.Node{
				ID: "cp-1", Release: "1.1.0", Version: "1.1.0-rc.1+g0abc", MinimumReconcilerRelease: "1.0.0", MinimumApiserverRelease: "1.0.0",
				Roles: []string{"kubernetes_controller", "consensus_member"}, RegisteredRevision: 7,
				Address: "http://127.0.0.1:8086", Bundle: "acme", BundleSource: "built-in", BundleDigest: "sha256:6c70f1",
			},
			Ready: report.Ready{Ready: true, Reason: "Ready", Message: "release 1.1.0 fits the objects (WORKING, release 1.1.0, minimum release 1.0.0)", Since: report.At(when),
				Standing: report.Standing{Serves: true, ServesReason: "Ready", ServesMessage: "release 1.1.0 fits the objects (WORKING, release 1.1.0, minimum release 1.0.0)"}, ServesSince: report.At(when)},
			Reconciler: report.Reconciler{
				Kind: "present", State: "WORKING", Version: "1.1.0", MinimumCompatibleRelease: "1.0.0", Leader: "cp-2", Epoch: 4, DrainedEpoch: 3,
				ModRevision: 9, ContentRelease: "1.1.0", ContentEpoch: 2, BundleDigest: "sha256:91be02", UpdatedAt: report.At(when),
				Bundle: "base", Replacement: &report.Replacement{From: "base", To: "acme", Since: report.At(when), Message: "waits until a node with the bundle acme leads " +
					"(a bundle of unknown name on cp-1, cp-2); to forget it: sidecar bundle replace --cancel --etcd-servers=http://10.0.0.1:2379"},
			},
			Election: report.Election{
				State: "leading", Since: report.At(when), Leader: "cp-1", Epoch: 5, Eligible: true,
				Step: report.Step{Kind: "Await", Rule: "WaitForNodes", Message: "2 registered nodes do not fit"},
			},
			Fleet: wantFleet(when, later),
			Reconcile: report.Reconcile{
				LastSuccess: report.At(when), LastError: `apply StorageClass "x": refused`, DurationSeconds: 1.5,
				Objects:   report.Objects{Desired: 7, Fence: 2, Applied: 1, Unchanged: 2, Failed: 1, Pruned: 3, Owed: 4},
				PruneHeld: "the bundle is empty", TotalFailures: 51,
				Failures: []report.Failure{{Object: `StorageClass "x"`, Message: "refused", Source: "x.yaml:3", Since: report.At(when),
					Remedy: `correct the manifest (x.yaml:3) or what rejects it, or give it the annotation lockstep.dev/required: "false"`}},
				Strangers: []report.Stranger{{Object: `ServiceAccount "n/s"`, Manager: "kubectl", Command: "kubectl delete serviceaccounts --namespace=n -- s"}}, TotalStrangers: 12,
				Drift: report.Drift{
					Watching: true, Problem: "cannot watch", Repairs: 12, LastRepair: report.At(when),
					Fights: []report.Fight{
						{Object: `ConfigMap "n/a"`, Manager: "kubectl-edit", Fields: []string{".data.x"}, Repairs: 9, Since: report.At(when), LastRepair: report.At(when),
							Message: `field manager "kubectl-edit" keeps changing .data.x (repaired 9 times); stop that writer, or leave .data.x of this object out of the bundle`},
						{Object: `ConfigMap "n/b"`, Fields: []string{}, Repairs: 5, Since: report.At(when),
							Message: "another writer keeps changing this object (repaired 5 times); stop that writer, or leave this object out of the bundle"},
					},
				},
			},
			Certificates: []report.Certificate{
				{Use: "etcd-client", File: "/etcd.crt", Expires: report.At(when)}, {Use: "serving", File: "/tls.crt", Problem: "no PEM certificate"},
			},
			Etcd: report.Etcd{
				Connected: true, LastContact: report.At(when), Revision: 12, Endpoints: []string{"http://10.0.0.1:2379"},
				Warnings: []string{"etcd 3.5.0 has known faults"},
			},
			Roles: report.Roles{Local: []string{"kubernetes_controller", "consensus_member"}, Source: "disk", Since: report.At(when)},
			Services: []report.Service{
				{
					Name: "kube-apiserver", Role: "kubernetes_controller", Driver: "process", Phase: "Running", Ready: true, Since: report.At(when),
					Restarts: 2, LastExit: "exit status 1", LastLines: []string{}, Required: true,
				},
				{Name: "haproxy", Role: "kubernetes_controller", Driver: "systemdUnit", Phase: "Stopped", Problem: "refused", LastLines: []string{}, File: "/etc/20.yaml", Changed: report.At(when)},
			},
			Turns: report.Turns{Limit: 1, Held: []report.Turn{}, Waiting: []report.Waiting{}},
			Endpoints: report.Endpoints{
				Enabled: true, Reason: "Published", Message: "in place", Since: report.At(when), Problem: "refused", Revision: 7,
				Addresses: []string{"10.0.0.1", "fd00::1"},
				Nodes: []report.EndpointsNode{
					{ID: "a", Addresses: []string{"10.0.0.1", "fd00::1"}, Port: 6443, Serves: true, Reason: "Ready", Message: "open"},
					{ID: "b", Addresses: []string{}, Reason: "NoPresence", Message: "off"},
				},
			},
			Cluster: report.Cluster{
				State: "Running", Since: report.At(when), Error: "no space left on device",
				Transitions: []report.Transition{{From: "New", To: "CreatingCluster", At: report.At(when)}, {From: "CreatingCluster", To: "Running", At: report.At(when)}},
				Members: []report.Member{
					{ID: "8e9e05c52164694d", Node: "cp-1", Address: "10.0.0.1", Problem: "it does not answer", Since: report.At(when)},
					{ID: "91bc3c398fb3c146", Address: "10.0.0.2", Learner: true, Leader: true, Healthy: true},
				},
				Rotation: report.Rotation{Phase: "Trusting", Since: report.At(when), Turn: "cp-1", WaitsFor: []string{"cp-1", "cp-2"}, Lost: []string{}, Problem: "no answer"},
			},
			UpgradeObstacles: []report.Obstacle{
				{Reason: "RecordCorrupt", Node: "cp-3", Message: "its record is corrupt: not a Node; its sidecar writes it again if it is alive; " +
					"if the node has stopped for good: sidecar node remove cp-3 --confirm-stopped --etcd-servers=http://10.0.0.1:2379"},
				{Reason: "UpgradeUnderWay", Message: "the status is WORKING at 1.1.0, not DONE"},
				{Reason: "NodeDead", Node: "cp-2", Message: "it is not alive; start it again, or if it has stopped for good: " +
					"sidecar node remove cp-2 --confirm-stopped --etcd-servers=http://10.0.0.1:2379"},
				{Reason: "Outage", Node: "cp-1", Message: "it is the only one of 2 controllers that serves: while it is stopped, no kube-apiserver does"},
				{Reason: "MemberDown", Node: "cp-1", Message: "if the node is off for good, type on another node: sidecar cluster remove cp-1 " +
					"--etcd-servers=http://10.0.0.1:2379; an upgrade stops another voter, and etcd would accept no writes meanwhile"},
			},
			UpgradeNotes: []string{
				"etcd, and each kube-apiserver that uses it, stop during the upgrade; add two voters: sidecar cluster token create --etcd-servers=http://10.0.0.1:2379",
			},
			Warnings: []report.Warning{
				{Reason: "NodeDead", Subject: "cp-2", Message: "sidecar node remove cp-2 --confirm-stopped --etcd-servers=http://10.0.0.1:2379", Severity: "down"},
				{Reason: "RemovalsHeld", Message: "the bundle is empty", Since: report.At(when), Severity: "risk"},
			},
		}
		if diff := cmp.Diff(want, decoded(t, byName["ready"]), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("the fields of a corrupt status are empty", func(t *testing.T) {
		got := NewStatus(byName["status corrupt"]).Reconciler
		want := report.Reconciler{Kind: "corrupt", Problem: "unexpected end", ModRevision: 8}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("a node that is not alive is not ready, whatever its last presence said", func(t *testing.T) {
		snap := byName["ready"]
		snap.Fleet.Records[0].Alive = false
		got := NewStatus(snap).Fleet.Nodes[0]
		if got.Ready || got.Reason != "" || got.Election != "" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("the upgrade is ready as protocol says", func(t *testing.T) {
		snap := Snapshot{
			Status: protocol.StatusView{Kind: protocol.StatusPresent, Status: protocol.Status{State: protocol.Done, Version: mustVersion(t, "1.1.0")}},
			Fleet:  protocol.Fleet{Records: fleetOfThree(t).Records[:1]}, // which leads
			Etcd:   Etcd{Reached: true, Etcd: report.Etcd{Connected: true}},
		}
		if !NewStatus(snap).UpgradeReady {
			t.Error("one controller at the release of a DONE status: got not ready")
		}
		snap.Etcd.Connected = false
		if NewStatus(snap).UpgradeReady {
			t.Error("etcd is unreachable: got ready")
		}
		snap.Etcd.Connected = true
		snap.Fleet = fleetOfThree(t)
		if NewStatus(snap).UpgradeReady {
			t.Error("an old controller and a corrupt record: got ready")
		}
	})
}

// decoded is the report of a snapshot, as a command decodes it.
func decoded(t *testing.T, s Snapshot) report.Status {
	t.Helper()
	var out report.Status
	if err := json.Unmarshal(marshal(NewStatus(s)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestStatusHasNoNullButTimes holds the promise that a field without a value is
// empty, at the snapshot that has the fewest.
func TestStatusHasNoNullButTimes(t *testing.T) {
	var now map[string]any
	if err := json.Unmarshal(get(t, newFixture(t, Snapshot{}).Handler(), "/status").Body.Bytes(), &now); err != nil {
		t.Fatal(err)
	}
	times := map[string]bool{"since": true, "staleSince": true, "updatedAt": true, "lastSuccess": true, "lastRepair": true, "lastContact": true, "override": true, "replacement": true, "rollback": true, "servesSince": true, "newest": true}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		object, ok := v.(map[string]any)
		if !ok {
			return
		}
		for name, field := range object {
			if (field == nil) != times[name] {
				t.Errorf("%s.%s: got %v", path, name, field)
			}
			walk(path+"."+name, field)
		}
	}
	walk("", now)
	if ready := now["ready"].(map[string]any); ready["reason"] != "Starting" {
		t.Errorf("reason: got %v, want Starting", ready["reason"])
	}
}

func TestStatusETag(t *testing.T) {
	snap := states(t)[1].snap
	f := newFixture(t, snap)
	tag := get(t, f.Handler(), "/status").Header().Get("ETag")
	conditional := func(header string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/status", nil)
		r.Header.Set("If-None-Match", header)
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, r)
		return w
	}
	for _, header := range []string{tag, `"other", ` + tag, "*", tag[2:]} {
		if w := conditional(header); w.Code != http.StatusNotModified || w.Body.Len() != 0 || w.Header().Get("ETag") != tag {
			t.Errorf("If-None-Match %s: got %d with %d bytes, ETag %s", header, w.Code, w.Body.Len(), w.Header().Get("ETag"))
		}
	}
	for _, header := range []string{"", `"other"`, `W/""`} {
		if w := conditional(header); w.Code != http.StatusOK {
			t.Errorf("If-None-Match %q: got %d, want 200", header, w.Code)
		}
	}
	snap.Etcd.LastContact, snap.Etcd.Revision = report.At(epochTime.Add(time.Second)), 13
	f.snapshot.Set(snap)
	if w := conditional(tag); w.Code != http.StatusNotModified {
		t.Errorf("only etcd's last contact moved: got %d, want 304", w.Code)
	}
	snap.Etcd.Connected = false
	f.snapshot.Set(snap)
	if w := conditional(tag); w.Code != http.StatusOK {
		t.Errorf("etcd went away: got %d, want 200", w.Code)
	}
}

func TestVersion(t *testing.T) {
	tests := []struct {
		build Build
		want  [5]string // major, minor, gitVersion, gitCommit, gitTreeState
	}{
		{Build{Version: "0.1.0", Commit: "0abc", Date: "2026-11-21T08:00:00Z"}, [5]string{"0", "1", "0.1.0", "0abc", "clean"}},
		{Build{Version: "v1.2.3-rc.1", Commit: "0abc-dirty"}, [5]string{"1", "2", "v1.2.3-rc.1", "0abc", "dirty"}},
		{Build{Version: "(devel)"}, [5]string{"", "", "(devel)", "", ""}},
	}
	for _, test := range tests {
		v := newVersionReport(test.build)
		if got := [5]string{v.Major, v.Minor, v.GitVersion, v.GitCommit, v.GitTreeState}; got != test.want {
			t.Errorf("%+v: got %v, want %v", test.build, got, test.want)
		}
	}
}

func TestPagesOfText(t *testing.T) {
	f := newFixture(t, Snapshot{})
	for _, target := range []string{"/statusz", "/flagz"} {
		for accept, code := range map[string]int{"": 200, "*/*": 200, "text/html, text/*;q=0.5": 200, "text/plain;q=0, application/json": 406, "application/json": 406} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
			if accept != "" {
				r.Header.Set("Accept", accept)
			}
			w := httptest.NewRecorder()
			if f.Handler().ServeHTTP(w, r); w.Code != code {
				t.Errorf("%s for %q: got %d, want %d", target, accept, w.Code, code)
			}
		}
	}
	if body := get(t, f.Handler(), "/flagz").Body.String(); !containsAll(body, "\nlockstep flagz\n", "\nnode-id=cp-1\nlisten=127.0.0.1:8086\n") {
		t.Errorf("got %q", body)
	}
	if body := get(t, f.Handler(), "/statusz").Body.String(); !containsAll(body, "\nlockstep statusz\n", "Binary version: 0.1.0\n", "Go version: go1", "Paths: /livez ") {
		t.Errorf("got %q", body)
	}
}

// wantFleet is the report of fleetOfThree, and of the leader's blockers.
func wantFleet(when, later time.Time) report.Fleet {
	return report.Fleet{
		Revision: 11, MinRelease: "0.9.0", MaxRelease: "1.1.0",
		Nodes: []report.FleetNode{
			{Record: report.Record{
				ID: "cp-1", Release: "1.1.0", Version: "1.1.0", Roles: []string{"kubernetes_controller"}, Ready: true, Reason: "Ready", Alive: true,
				Election: "leading", Address: "http://10.0.0.1:8086", BundleDigest: "sha256:6c70f1",
				Standing: report.Standing{Serves: true, ServesReason: "Ready"},
			}, Host: "one", Warnings: []report.Warning{{Message: "look", Severity: "risk"}}},
			{Record: report.Record{ID: "cp-2", Release: "0.9.0", Version: "0.9.0", Roles: []string{"kubernetes_controller"}}, Blocks: true, Warnings: []report.Warning{}},
			{Record: report.Record{ID: "cp-3", Roles: []string{}, Problem: "not a Node; its sidecar writes it again if it is alive; if the node has stopped for good: sidecar node remove cp-3 --confirm-stopped --etcd-servers=http://10.0.0.1:2379"}, Blocks: true, Warnings: []report.Warning{}},
		},
		Blockers: []report.Blocker{
			{ID: "cp-2", Release: "0.9.0", Reason: "ReleaseTooOld", Message: "upgrade it", Absence: report.Absence{GoneSince: report.At(when), PassedOverAt: report.At(later)}},
			{ID: "cp-3", Release: "0.0.0", Reason: "RecordCorrupt", Message: "remove it"},
		},
	}
}
