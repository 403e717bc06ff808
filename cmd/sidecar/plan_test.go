package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/bundles"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// planRig is an etcd with a fleet in it.
type planRig struct {
	command
	raw *clientv3.Client
}

func newPlanRig(t *testing.T) planRig {
	server := etcdtest.New(t)
	return planRig{command: command{T: t, endpoint: server.Endpoints()[0]}, raw: server.Client(t)}
}

func (r planRig) put(key string, value []byte) {
	r.Helper()
	if _, err := r.raw.Put(r.Context(), "/lockstep/"+key, string(value)); err != nil {
		r.Fatal(err)
	}
}

// clear leaves nothing.
func (r planRig) clear() {
	r.Helper()
	if _, err := r.raw.Delete(r.Context(), "/lockstep/", clientv3.WithPrefix()); err != nil {
		r.Fatal(err)
	}
}

// nodes registers controllers that run the bundle in dir; the last of them
// leads.
func (r planRig) nodes(dir string, ids ...string) {
	r.Helper()
	b := mustLoad(r.T, dir)
	for i, id := range ids {
		r.put("nodes/"+id, fleet.Encode(protocol.Node{
			ID: protocol.NodeID(id), Version: b.Version, MinReconciler: b.Constraints.MinReconciler, Digest: b.Digest,
			Roles: protocol.Roles{Controller: true},
		}))
		election := string(protocol.Campaigning)
		if i == len(ids)-1 {
			election = string(protocol.Leading)
		}
		value, err := proto.Marshal(&lockstepv1.Presence{Instance: id, Ready: true, Reason: string(protocol.Ready), Election: election})
		if err != nil {
			r.Fatal(err)
		}
		r.put("presence/"+id, value)
	}
}

// done makes the status tell that the objects are those of the bundle in dir.
func (r planRig) done(dir string) {
	r.Helper()
	own := mustLoad(r.T, dir).Local()
	value, err := status.Encode(protocol.Status{
		State: protocol.Done, Version: own.Version, MinCompatible: own.Constraints.MinAPIServer,
		Digest: own.Digest, Bundle: own.Bundle, ContentRelease: own.Version.Release, ContentEpoch: 1,
	}, noon)
	if err != nil {
		r.Fatal(err)
	}
	r.put("kubernetes/reconciler/status", value)
}

func mustLoad(t *testing.T, dir string) *bundle.Bundle {
	t.Helper()
	b, err := bundle.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func constraints(own, m, a string) string {
	return "release: " + own + "\nminReconcilerRelease: " + m + "\nminApiserverRelease: " + a
}

func TestPlan(t *testing.T) {
	r := newPlanRig(t)
	older := writeBundle(t, constraints("1.0.0", "1.0.0", "1.0.0"), settingsBefore)
	raised := writeBundle(t, constraints("1.1.0", "1.0.0", "1.1.0"), settingsAfter)
	deadlock := writeBundle(t, constraints("1.1.0", "1.1.0", "1.1.0"), settingsAfter)

	r.want(console.ExitOK, "A new cluster: the first node creates the objects", "plan", "--bundle", older)
	r.nodes(older, "cp-1", "cp-3", "cp-2")
	r.done(older)

	code, out, errs := r.run("plan", "--bundle", raised)
	const want = `BUNDLE  test 1.1.0, minReconcilerRelease 1.0.0, minApiserverRelease 1.1.0
NOW     DONE 1.0.0 min 1.0.0, 3 of 3 ready, cp-2 leads

STEP  NODE  RELEASE         READY DURING  READY AFTER  LEADER AFTER  STATUS AFTER          WAITS FOR
1     cp-1  1.0.0 -> 1.1.0  2 of 3        3 of 3       cp-1          DONE 1.0.0 min 1.0.0  cp-2, cp-3
2     cp-3  1.0.0 -> 1.1.0  2 of 3        3 of 3       cp-1          DONE 1.0.0 min 1.0.0  cp-2
3     cp-2  1.0.0 -> 1.1.0  2 of 3        3 of 3       cp-1          DONE 1.1.0 min 1.1.0  -

1  cp-1 leads
   cp-1 waits for cp-2: runs release 1.0.0, but the new objects need 1.1.0 or newer; upgrade it
   cp-1 waits for cp-3: runs release 1.0.0, but the new objects need 1.1.0 or newer; upgrade it
2  cp-1 waits for cp-2: runs release 1.0.0, but the new objects need 1.1.0 or newer; upgrade it
3  cp-1 restricts the status to nodes that fit the objects before and after: release 1.0.0, minimum release 1.1.0
   cp-1 applies the objects of release 1.1.0

OBJECTS  not compared: set --kubeconfig

The rollout is clean. Upgrade one node at a time, and wait until it is ready before the next.
`
	if diff := cmp.Diff(want, out); code != console.ExitOK || errs != "" || diff != "" {
		t.Errorf("got exit %d, %s and (-want +got):\n%s", code, errs, diff)
	}

	r.want(console.ExitNotReady, "Deadlock  cp-1  it is not ready until cp-2 is upgraded (step 3), because the leader waits for cp-2, cp-3 before it applies the objects; the bundle cannot be rolled out from 1.0.0",
		"plan", "--bundle", deadlock)
	r.want(console.ExitNotReady, "sidecar: test 1.1.0 cannot be rolled out cleanly: 2 obstacles", "plan", "--bundle", deadlock)
	r.want(console.ExitOK, "Nothing to do: all nodes run this bundle.", "plan", "--bundle", older)
	r.want(console.ExitOK, "No node has to be upgraded", "plan", "--bundle", writeBundle(t, constraints("1.0.0", "1.0.0", "1.0.0"), settingsAfter))

	// Back across a raised minimum.
	r.nodes(raised, "cp-1", "cp-3", "cp-2")
	r.done(raised)
	r.want(console.ExitNotReady, "Outage                cp-2  once it stops, no node is ready", "plan", "--bundle", older)

	// The upgrade is not done: one node is dead, and its record is corrupt then.
	r.nodes(older, "cp-3")
	r.want(console.ExitNotReady, "UpgradeUnderWay  -  the previous upgrade is not complete (upgradeReady is false): the nodes run different releases: cp-3 runs release 1.0.0, cp-1, cp-2 run 1.1.0; to go on: upgrade cp-3; to go back: roll cp-1, cp-2 back",
		"plan", "--bundle", writeBundle(t, constraints("1.2.0", "1.0.0", "1.0.0"), settingsAfter))
	if _, err := r.raw.Delete(t.Context(), "/lockstep/presence/cp-3"); err != nil {
		t.Fatal(err)
	}
	removal := "stopped for good: sidecar node remove cp-3 --confirm-stopped --etcd-servers=" + r.endpoint
	// It was alive a moment ago: this command does not know for how long it has been missing.
	for _, args := range [][]string{{"plan"}, {"plan", "-o", "json"}, {"plan", "--rollback"}} {
		args = append(args, "--bundle", raised)
		r.want(console.ExitNotReady, "it is not alive; start it again, unless it is restarting", args...)
		if _, out, errs := r.run(args...); strings.Contains(out+errs, " remove ") {
			t.Errorf("%v proposes a removal:\n%s%s", args, out, errs)
		}
	}
	r.put("nodes/cp-3", []byte("\xff"))
	r.want(console.ExitNotReady, "RecordCorrupt  cp-3  its record is corrupt: it is not a node record", "plan", "--bundle", raised)
	r.want(console.ExitNotReady, removal, "plan", "--bundle", raised)
	r.want(console.ExitOK, removal, "node", "list")
	r.put("kubernetes/reconciler/status", []byte("\xff"))
	r.want(console.ExitNotReady, "StatusCorrupt  -", "plan", "--bundle", raised)

	r.want(console.ExitFailed, "no such file", "plan", "--bundle", "nowhere")
	r.want(console.ExitUsage, "unexpected argument", "plan", raised)
	r.want(console.ExitUsage, "must be one of table, json", "plan", "-o", "yaml")
	r.endpoint = "nowhere"
	r.want(console.ExitUsage, "(set by LOCKSTEP_ETCD_SERVERS)", "plan")
}

// Without an API server, the plan finds what validate finds.
func TestPlan_faults(t *testing.T) {
	r := newPlanRig(t)
	dir := writeBundle(t, constraints("1.0.0", "1.0.0", "1.0.0"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: n}\ndata: {color: 5}\n")
	r.want(console.ExitOK, "warning: "+dir+`/objects.yaml:1: ConfigMap "a": data["color"] must be a text: write it in quotes`, "plan", "--bundle", dir)
}

func TestPlanWithObjects(t *testing.T) {
	r := newPlanRig(t)
	api := cluster.NewAPIServer(t)
	older := writeBundle(t, constraints("1.0.0", "1.0.0", "1.0.0"), settingsBefore, oldMap)
	newer := writeBundle(t, constraints("1.1.0", "1.0.0", "1.0.0"), settingsAfter, secret("aGVsbG8="))
	kubeconfig := "--kubeconfig=" + api.Kubeconfig()
	r.nodes(older, "cp-1", "cp-2", "cp-3")
	applyBundle(t, api, older)
	r.done(older)

	code, out, errs := r.run("plan", "--bundle", newer, kubeconfig, "-o", "json")
	var got bundles.PlanReport
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in\n%s%s", err, out, errs)
	}
	wantDiffering := []bundles.ObjectReport{
		{Action: "created", Object: `Secret "default/token"`}, {Action: "changed", Object: `ConfigMap "default/settings"`},
		{Action: "pruned", Object: `ConfigMap "default/old"`},
	}
	if diff := cmp.Diff(wantDiffering, got.Objects.Differing); code != console.ExitOK || !got.Clean || diff != "" {
		t.Errorf("got exit %d, clean %t, %s (-want +got):\n%s", code, got.Clean, errs, diff)
	}
	if len(got.Steps) != 3 || !got.Steps[0].Changed || got.Steps[1].Removed || !got.Steps[2].Removed || strings.Contains(out, "null") {
		t.Errorf("got %s", out)
	}
	r.want(console.ExitOK, "OBJECTS  1 created, 1 changed, 1 pruned, 2 unchanged; written in step 1, deleted in step 3\n", "plan", "--bundle", newer, kubeconfig)

	// Only the name of a Secret is shown in any error about it.
	refused := "apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: default}\ntype: kubernetes.io/tls\nstringData: {tls.key: hunter2}\n"
	hidden := writeBundle(t, constraints("1.1.0", "1.0.0", "1.0.0"), settingsAfter, secret("aHVudGVyMg=="), refused)
	for _, args := range [][]string{{"plan", "--bundle", hidden}, {"plan", "-o", "json", "--bundle", hidden}, {"bundle", "diff", hidden}} {
		_, out, errs := r.run(append(args, kubeconfig)...)
		if all := out + errs; !strings.Contains(all, "default/key") || strings.Contains(all, "hunter2") || strings.Contains(all, "aHVudGVyMg") {
			t.Errorf("%q: got\n%s", args, all)
		}
	}

	wrong := writeBundle(t, constraints("1.1.0", "1.0.0", "1.0.0"), settingsAfter, wrongMap)
	r.want(console.ExitNotReady, "ObjectsFail  -  the API server rejects 1 object now", "plan", "--bundle", wrong, kubeconfig)
	r.want(console.ExitNotReady, `failed   ConfigMap "default/wrong"`, "plan", "--bundle", wrong, kubeconfig)

	// Objects without a status show that the cluster is not new.
	r.clear()
	r.want(console.ExitOK, "(first)", "plan", "--bundle", newer, kubeconfig)
	if err := api.Stop(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r.want(console.ExitFailed, "kube-apiserver is unreachable", "plan", "--bundle", newer, kubeconfig)
	t.Log("an unreachable kube-apiserver is reported after", time.Since(began))
}
