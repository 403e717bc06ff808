package bundles

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/rollout"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/report"
)

// TestPlanAgreesWithStatus asks `sidecar plan` and /status about the fleet of every captured
// situation: both give one answer to whether the next upgrade may start.
func TestPlanAgreesWithStatus(t *testing.T) {
	captures, err := filepath.Glob("../../testdata/situations/*/*.json")
	if err != nil || len(captures) == 0 {
		t.Fatalf("got %d captures, %v", len(captures), err)
	}
	obstacles := 0
	for _, path := range captures {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		a, err := reach.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		if !a.Report.Etcd.Connected {
			continue // plan could not read the fleet
		}
		name := strings.TrimSuffix(strings.TrimPrefix(path, "../../testdata/situations/"), ".json")
		t.Run(name, func(t *testing.T) {
			status, plan := bothAnswers(t, a.Report)
			if diff := cmp.Diff(status.UpgradeObstacles, plan.Now.UpgradeObstacles); diff != "" {
				t.Errorf("obstacles of /status and of plan (-status +plan):\n%s", diff)
			}
			if diff := cmp.Diff(status.UpgradeNotes, plan.Now.UpgradeNotes); diff != "" || *plan.Now.UpgradeReady != status.UpgradeReady {
				t.Errorf("notes of /status and of plan (-status +plan):\n%s, ready %t and %t", diff, status.UpgradeReady, *plan.Now.UpgradeReady)
			}
			if a.Report.UpgradeReady != status.UpgradeReady && !a.Report.UpgradeReady {
				t.Errorf("the sidecar held the upgrade, and its facts do not: %+v", a.Report.UpgradeObstacles)
			}
			for _, o := range status.UpgradeObstacles {
				obstacles++
				if !slices.ContainsFunc(plan.Obstacles, func(p obstacleReport) bool { return p.Kind == o.Reason && p.Node == o.Node }) &&
					!slices.ContainsFunc(plan.Obstacles, func(p obstacleReport) bool { return p.Kind == "StatusCorrupt" }) {
					t.Errorf("%s %s is no obstacle of the next rollout: got %+v", o.Reason, o.Node, plan.Obstacles)
				}
			}
		})
	}
	if obstacles < 20 {
		t.Errorf("got %d obstacles in all situations, want many", obstacles)
	}
}

// bothAnswers returns the answers of /status and of plan about the fleet of a report, if a newer
// bundle is to be rolled out.
func bothAnswers(t *testing.T, r report.Status) (report.Status, PlanReport) {
	t.Helper()
	fleet, view := fleetOf(t, r), statusOf(t, r.Reconciler)
	full := slices.ContainsFunc(r.UpgradeObstacles, func(o report.Obstacle) bool { return o.Reason == string(warn.EtcdFull) })
	next := protocol.Local{Version: protocol.Version{Release: protocol.Release{Major: 99}}, Digest: "sha256:next"}
	in := rollout.Input{Fleet: fleet, Status: view, Bundle: next, Full: full}
	for _, m := range r.Cluster.Members {
		if !m.Learner {
			in.Voters = append(in.Voters, protocol.Voter{Name: m.Node, Address: m.Address, Healthy: m.Healthy})
		}
	}
	seen := httpapi.Snapshot{Fleet: fleet, Status: view, Etcd: httpapi.Etcd{Etcd: report.Etcd{Connected: true}, Full: full}, Cluster: httpapi.Cluster{Voters: in.Voters}}
	return httpapi.NewStatus(seen),
		newPlanReport(&bundle.Bundle{Version: next.Version, Digest: next.Digest}, in, nil, "")
}

// fleetOf is the fleet that a report shows.
func fleetOf(t *testing.T, r report.Status) protocol.Fleet {
	t.Helper()
	out := protocol.Fleet{Revision: r.Fleet.Revision}
	for _, n := range r.Fleet.Nodes {
		roles, err := protocol.ParseRoles(n.Roles)
		if err != nil {
			t.Fatal(err)
		}
		id := protocol.NodeID(n.ID)
		record := &protocol.Record{ID: id, Problem: n.Problem, Alive: n.Alive, Node: protocol.Node{
			ID: id, Roles: roles, Serves: roles.Controller, Bundle: n.Bundle, Digest: n.BundleDigest, Ephemeral: n.Ephemeral,
		}}
		if n.Problem == "" {
			if record.Node.Version, err = semver.ParseVersion(n.Version); err != nil {
				t.Fatal(err)
			}
		}
		if n.Cordon != nil {
			record.Node.Cordon = protocol.Cordon{Message: "as captured"}
		}
		record.Presence = protocol.Presence{Ready: n.Ready, Reason: protocol.Reason(n.Reason), Election: protocol.ElectionState(n.Election), Host: n.Host}
		record.Presence.APIServer, record.Presence.Services = n.ApiserverVersion, n.ServicesDigest
		record.Presence.APIServerDown = n.ServesReason == string(protocol.APIServerNotReady) || n.ServesReason == string(protocol.APIRefused)
		if slices.ContainsFunc(r.UpgradeObstacles, func(o report.Obstacle) bool {
			return o.Reason == string(warn.ObjectFailed) && o.Node == n.ID
		}) {
			record.Presence.Failing = 1
		}
		for _, w := range n.Warnings {
			record.Presence.Warnings = append(record.Presence.Warnings, protocol.Warning{Reason: protocol.Reason(w.Reason), Subject: w.Subject, Message: w.Message})
		}
		out.Records = append(out.Records, record)
	}
	return out
}

// statusOf is the reconciler status that a report shows.
func statusOf(t *testing.T, r report.Reconciler) protocol.StatusView {
	t.Helper()
	out := protocol.StatusView{Revision: r.ModRevision, Problem: r.Problem, Kind: map[string]protocol.StatusKind{
		"absent": protocol.StatusAbsent, "corrupt": protocol.StatusUndecodable, "present": protocol.StatusPresent,
	}[r.Kind]}
	if out.Kind != protocol.StatusPresent {
		return out
	}
	var err error
	if out.Status.Version, err = semver.ParseVersion(r.Version); err != nil {
		t.Fatal(err)
	}
	if out.Status.MinCompatible, err = semver.ParseRelease(r.MinimumCompatibleRelease); err != nil {
		t.Fatal(err)
	}
	out.Status.State = map[string]protocol.State{"DONE": protocol.Done, "WORKING": protocol.Working}[r.State]
	out.Status.Bundle = r.Bundle
	out.Status.Digest, out.Status.ContentEpoch, out.Status.Epoch = r.BundleDigest, r.ContentEpoch, r.Epoch
	out.Status.ContentRelease = out.Status.Version.Release
	return out
}
