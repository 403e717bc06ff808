package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const one = "release: 1.0.0"

func situations() []situation {
	return []situation{
		{name: "user-without-rights", always: true, cause: userWithoutRights},
		{name: "node-gone", always: true, cause: nodeGone},
		{name: "object-refused", cause: objectRefused},
		{name: "bundle-broken", cause: bundleBroken},
		{name: "etcd-hangs", always: true, member: true, cause: etcdHangs},
		{name: "bundles-differ", cause: bundlesDiffer},
		{name: "release-too-old", cause: releaseTooOld},
		{name: "fight", cause: fight},
		{name: "apiserver-hangs", always: true, cause: apiserverHangs},
		{name: "removals-held", cause: removalsHeld},
		{name: "deadlock", cause: deadlock},
		{name: "duplicate-node-id", cause: duplicateNodeID},

		{name: "client-certificate-expired", cause: clientCertificateExpired},
		{name: "wrong-authority", cause: wrongAuthority},
		{name: "apiserver-killed", cause: apiserverKilled},
		{name: "apiserver-not-ready", cause: apiserverNotReady},
		{name: "kubeconfig-elsewhere", cause: kubeconfigElsewhere},
		{name: "etcd-stopped", member: true, cause: etcdStopped},
		{name: "etcd-full", cause: etcdFull},
		{name: "etcd-never-reached", cause: etcdNeverReached},
		{name: "bundle-directory-gone", cause: bundleDirectoryGone},
		{name: "crd-missing", cause: crdMissing},
		{name: "admission-denies", cause: admissionDenies},
		{name: "namespace-terminating", cause: namespaceTerminating},
		{name: "status-corrupt", cause: statusCorrupt},
		{name: "record-corrupt", cause: recordCorrupt},
		{name: "role-taken", cause: roleTaken},
		{name: "cordoned", always: true, cause: cordoned},
		{name: "service-crashes", cause: serviceCrashes},
		{name: "service-never-ready", cause: serviceNeverReady},
		{name: "etcd-authority-wrong", cause: etcdAuthorityWrong},
		{name: "presence-without-gate", cause: presenceWithoutGate},
		{name: "foreign-store", cause: foreignStore},
		{name: "mark-damaged", cause: markDamaged},
		{name: "versions-differ", cause: versionsDiffer},
		{name: "clock-ahead", cause: clockAhead},
		{name: "left-on", always: true, cause: leftOn},
		{name: "other-bundle", cause: otherBundle},
		{name: "ephemeral-cut-off", cause: ephemeralCutOff},
		{name: "rolling-back", cause: rollingBack},
	}
}

func userWithoutRights(b *broken) {
	cert, key, err := b.c.ClientCertificate("weak", time.Now().Add(time.Hour), "lockstep:sidecars")
	b.must(err)
	weak := b.kubeconfig("weak", b.api.URL(), b.authority(), cert, key)
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir, kubeconfigOf(weak))
	b.start("cp-2", dir, kubeconfigOf(weak))
	why := `its kube-apiserver ` + b.api.URL() + ` refuses user "weak": configmaps "lockstep" is forbidden|give that user the rights: sidecar bundle rights ` + dir + " --all | kubectl apply -f -; they are for the group lockstep:sidecars"
	for _, node := range []string{"cp-1", "cp-2"} {
		b.says(node, "this node: withdrawn for |(see GATE)", "GATE|no node leads|"+why, "UPGRADE|do not start", "no node leads")
	}
	b.types("cp-2", "sidecar bundle rights")
	b.ready("cp-1", "cp-2")
}

func nodeGone(b *broken) {
	data := filepath.Join(b.dir, "data-9")
	b.must(os.Mkdir(data, 0o700))
	b.start("cp-9", b.bundle("old", one), func(c *cluster.SidecarConfig) { c.Args = append(c.Args, "--data-dir="+data) })
	b.ready("cp-9")
	inData := func(args ...string) string {
		cmd := exec.CommandContext(b.Context(), filepath.Join(cluster.Assets(b.T, "sidecar"), "sidecar"), args...)
		cmd.Env = append(os.Environ(), "LOCKSTEP_DATA_DIR="+data)
		out, err := cmd.CombinedOutput()
		if err == nil {
			b.Errorf("%q: no error: %s", args, out)
		}
		return string(out)
	}
	inData("run", "--bundel=x", "--listen="+strings.TrimPrefix(b.sidecars["cp-9"].URL(), "http://")) // a typo beside it says nothing about it
	b.must(b.sidecars["cp-9"].Kill())
	if out := inData("status", "--server="+b.sidecars["cp-9"].URL()); !strings.Contains(out, " and ended without a reason: it was killed (kill -9, out of memory), or it crashed") {
		b.Errorf("of the killed sidecar: %s", out)
	}
	dir := b.bundle("new", "release: 2.0.0\nminApiserverRelease: 2.0.0")
	b.start("cp-1", dir)
	b.says("cp-1", "this node: leading")
	b.start("cp-2", dir)
	b.says("cp-1", "cp-9|ReleaseTooOld|no, for at least |runs release 1.0.0|upgrade it (it is not alive)", "UPGRADE|an upgrade is in progress: cp-9 runs release 1.0.0, cp-1|2.0.0")
	b.says("cp-2", "cp-9  |runs release 1.0.0, but|upgrade it (it is not alive)", "cp-9|BLOCKS")
	for _, node := range []string{"cp-1", "cp-2"} {
		b.says(node, "UPGRADE|an upgrade is in progress: cp-9 runs release 1.0.0, cp-1, cp-2 run 2.0.0", "cp-9: it is not alive (see WARNINGS)",
			"cp-9|it is not alive; start it again, unless it is restarting")
	}
	for _, node := range []string{"cp-1", "cp-2"} { // BLOCKERS and UPGRADE agree
		if table, err := b.table(b.Context(), node); err != nil || strings.Contains(table, "node remove") {
			b.Errorf("%s proposes a removal after seconds (%v):\n%s", node, err, table)
		}
	}
	b.explains("cp-9", "NoPresence: it went silent without a goodbye: its sidecar was killed, or its machine or network failed")
	b.shell("cp-2", b.removal("cp-9")) // shown when a restart would be over
	cluster.Await(b.T, "the upgrade", statusHas(b.sidecars["cp-2"], `"minimumCompatibleRelease": "2.0.0"`))
}

const badRole = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: plat-bad}\nrules:\n- {apiGroups: [\"\"], resources: [pods], verbs: []}\n"

func objectRefused(b *broken) {
	dir := b.bundle("bundle", one, badRole)
	b.start("cp-1", dir)
	b.says("cp-1", "this node: leading")
	b.start("cp-2", dir)
	b.says("cp-1", `ClusterRole "plat-bad"|verbs must contain at least one value|correct the manifest|objects.yaml:|lockstep.dev/required: "false"`,
		"GATE|this node leads: 1 of 5 objects failed")
	b.says("cp-2", `cp-1|ClusterRole "plat-bad": |correct the manifest|objects.yaml:`, "GATE|cp-1 leads: ClusterRole")
	for _, node := range []string{"cp-1", "cp-2"} {
		b.says(node, `cp-1: 1 object fails: ClusterRole "plat-bad" (see FAILURES on cp-1)`)
	}
}

func bundleBroken(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.start("cp-2", b.bundle("bundle-2", one))
	b.ready("cp-1", "cp-2")
	b.write(filepath.Join(dir, "objects.yaml"), "[")
	why := "its bundle directory was rejected, and the last valid bundle stays in use: |objects.yaml:|a restart would fail"
	b.says("cp-1", "cp-1|"+why, "UPGRADE|cp-1: its bundle directory was rejected")
	b.says("cp-2", "cp-1|"+why, "UPGRADE|cp-1: its bundle directory was rejected")
}

func etcdHangs(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.start("cp-2", dir)
	b.ready("cp-1", "cp-2")
	b.pause(b.c.Members[0].Process())
	for _, node := range []string{"cp-1", "cp-2"} {
		b.says(node, "ETCD|NOT CONNECTED for |"+b.c.Endpoints()[0]+": no answer in 2s; check whether etcd there hangs",
			"this node: unknown (etcd does not answer", "FLEET|as of |ago", "UPGRADE|do not start|etcd does not answer", "GATE|ready")
	}
	_, body, err := b.sidecars["cp-1"].Get(b.Context(), "/readyz?verbose")
	b.must(err)
	if !strings.Contains(body, "[+]etcd ok, but the verdict is the last known one: etcd has not answered since ") {
		b.Errorf("got %s", body)
	}
}

func bundlesDiffer(b *broken) {
	b.start("cp-1", b.bundle("bundle", one))
	b.start("cp-2", b.bundle("bundle-2", one, manifest("ConfigMap", "more", "")))
	for _, node := range []string{"cp-1", "cp-2"} {
		b.says(node, "nodes of release 1.0.0 have different bundles: sha256:|give all these nodes the same one|in force", "UPGRADE|nodes of one release have different bundles", "BUNDLE|bundle")
	}
}

func releaseTooOld(b *broken) {
	raised := b.bundle("new", "release: 2.0.0\nminApiserverRelease: 2.0.0")
	b.start("cp-1", raised)
	b.ready("cp-1")
	b.start("cp-2", b.bundle("old", one))
	b.says("cp-2", "GATE|NOT READY ReleaseTooOld|release 1.0.0 is below 2.0.0|upgrade this node, or roll all nodes back to 1.0.0")
	for _, node := range []string{"cp-1", "cp-2"} {
		b.says(node, "UPGRADE|the nodes run different releases: cp-2 runs release 1.0.0, cp-1 runs 2.0.0; to go on: upgrade cp-2; to go back: roll cp-1 back",
			"cp-2|ReleaseTooOld for ")
	}
}

func fight(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.ready("cp-1")
	b.start("cp-2", dir)
	b.says("cp-1", "KeepTarget: all objects match")
	for i := range 6 {
		b.kubectl("", "patch", "configmap", "settings", "--field-manager=other-operator", "--type=merge", fmt.Sprintf(`-p={"data":{"a":"theirs %d"}}`, i))
		cluster.Await(b.T, "the repair", statusHas(b.sidecars["cp-1"], fmt.Sprintf(`"repairs": %d,`, i+1)))
	}
	why := `field manager "other-operator" keeps changing .data.a`
	b.says("cp-1", `ConfigMap "default/settings"|`+why+"|stop that writer|unchanged for 5m", "STEP|except 1 object (see FIGHTS)")
	b.says("cp-2", `cp-1|ConfigMap "default/settings": `+why)
}

func apiserverHangs(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.start("cp-2", dir)
	b.ready("cp-1", "cp-2")
	b.pause(b.api.Process)
	b.apiAway("no answer in 5s")
	b.must(b.api.Kill()) // it would take its time to stop gracefully
}

// apiAway: both nodes withdraw because of the one kube-apiserver.
func (b *broken) apiAway(met string) {
	b.Helper()
	// Both have led, or one of them keeps the objects and does not need the API.
	b.kick()
	why := "its kube-apiserver " + b.api.URL() + " cannot be used: GET " + b.api.URL() + "/|" + met
	for _, node := range []string{"cp-1", "cp-2"} {
		b.says(node, "LEADER|none known|this node: withdrawn for |"+why, "UPGRADE|do not start|no node leads")
	}
}

// kick makes leaders need the API: the status is lost.
func (b *broken) kick() {
	b.Helper()
	_, err := b.etcd().Delete(b.Context(), "/lockstep/kubernetes/reconciler/status")
	b.must(err)
}

func removalsHeld(b *broken) {
	var many []string
	for i := range 12 {
		many = append(many, manifest("ConfigMap", fmt.Sprintf("extra-%02d", i), ""))
	}
	dir, second := b.bundle("bundle", one, many...), b.bundle("bundle-2", one, many...)
	b.start("cp-1", dir)
	b.ready("cp-1")
	b.start("cp-2", second)
	b.says("cp-1", "KeepTarget: all objects match")
	b.bundle("bundle", one)
	b.bundle("bundle-2", one)
	b.says("cp-1", "12 not pruned: the bundle drops 12 of 14 objects, more than half|--allow-mass-prune", "UPGRADE|removals are held",
		"cp-1|12 objects that the bundle dropped are not removed")
	b.says("cp-2", "cp-1|12 objects that the bundle dropped are not removed: the bundle drops 12 of 14 objects|--allow-mass-prune", "UPGRADE|removals are held")
}

func deadlock(b *broken) {
	b.start("cp-2", b.bundle("old", one))
	b.ready("cp-2")
	b.start("cp-1", b.bundle("new", "release: 2.0.0\nminReconcilerRelease: 2.0.0\nminApiserverRelease: 2.0.0"))
	b.says("cp-1", "STEP|cannot be rolled out node by node; roll cp-1 back to 1.0.0, and first roll out a release that raises only one of the two",
		"GATE|NOT READY ReconcilerTooOld|this node leads: it waits for cp-2")
	b.says("cp-1", "cp-2|ReleaseTooOld|yes|do not upgrade it now, which would be an outage: roll cp-1 back to 1.0.0",
		"UPGRADE|cp-2 runs release 1.0.0, cp-1 runs 2.0.0; they wait for each other: roll cp-1 back to 1.0.0")
	b.says("cp-2", "cp-2  |runs release 1.0.0, but|roll cp-1 back to 1.0.0", "cp-2|BLOCKS", "UPGRADE|roll cp-1 back to 1.0.0")
}

func duplicateNodeID(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.start("cp-2", dir)
	b.ready("cp-1", "cp-2")
	first := b.sidecars["cp-2"]
	b.start("cp-2", dir)
	<-first.Done()
	log, err := os.ReadFile(first.LogFile())
	b.must(err)
	host, err := os.Hostname()
	b.must(err)
	for _, text := range []string{"host " + host, "at " + b.sidecars["cp-2"].URL(), "give each sidecar its own --node-id"} {
		if !strings.Contains(string(log), text) {
			b.Errorf("the log has no %q", text)
		}
	}
	second := b.sidecars["cp-2"]
	b.sidecars["cp-2"] = first
	if out, err := b.table(b.Context(), "cp-2"); err == nil || !strings.Contains(out, "is the sidecar running? its log has the reason of its last exit") {
		b.Errorf("got %v, %s", err, out)
	}
	b.sidecars["cp-2"] = second
	why := "cp-2|another sidecar with the same node ID ran on this machine, host " + host + ", at " + first.URL() + ", and has exited; give each sidecar its own --node-id"
	b.says("cp-2", why)
	b.says("cp-1", why, "cp-2|1.0.0|yes")
}

// clientCertificateExpired starts the only node with an expired certificate, renews it, and lets it expire again while
// another node leads: every node says so before, and after.
func clientCertificateExpired(b *broken) {
	renew := func(until time.Duration) (cert, key string) {
		cert, key, err := b.c.ClientCertificate("lockstep", time.Now().Add(until), "system:masters")
		b.must(err)
		return cert, key
	}
	cert, key := renew(-time.Minute)
	expired := b.kubeconfig("lockstep", b.api.URL(), b.authority(), cert, key)
	dir := b.bundle("bundle", one)
	asks := func(c *cluster.SidecarConfig) { c.Args = append(c.Args, "--apiserver-readyz") }
	b.start("cp-1", dir, asks, kubeconfigOf(expired))
	b.says("cp-1", "this node: withdrawn for |(see GATE)", `GATE|this node has withdrawn: |rejects the credentials of kubeconfig `+expired+` (401 Unauthorized; the client certificate is of "lockstep", and expired at 20|renew them`)
	renew(30*24*time.Hour - 30*time.Minute) // it is valid from an hour ago, so for more than 30 days in all
	b.start("cp-2", dir, asks)
	b.ready("cp-1", "cp-2")
	const of = `cp-1|the client certificate of the kubeconfig (CN=lockstep,O=system:masters) in "`
	for _, node := range []string{"cp-1", "cp-2"} {
		b.says(node, "WARNINGS", of+cert+`" expires on 20|replace the file before that, it is read again by itself`, "UPGRADE|the next upgrade may start")
	}
	renew(-time.Minute)
	for _, node := range []string{"cp-1", "cp-2"} {
		b.says(node, "WARNINGS", of+cert+`" has expired on 20|kube-apiserver rejects this sidecar; replace the file, it is read again by itself`, "UPGRADE|do not start the next upgrade", "cp-1: ")
	}
}

func wrongAuthority(b *broken) {
	other := cluster.NewForTest(b.T, "kube-apiserver")
	cert, _, err := other.ClientCertificate("other", time.Now().Add(time.Hour))
	b.must(err)
	admin := b.api.Config()
	wrong := b.kubeconfig("wrong", b.api.URL(), filepath.Join(filepath.Dir(cert), "ca.crt"), admin.CertFile, admin.KeyFile)
	b.start("cp-1", b.bundle("bundle", one), kubeconfigOf(wrong))
	b.says("cp-1", "this node: withdrawn for |(see GATE)", "GATE|this node has withdrawn: |x509: certificate signed by unknown authority|check the certificate authority in kubeconfig "+wrong)
}

func apiserverKilled(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.start("cp-2", dir)
	b.ready("cp-1", "cp-2")
	b.must(b.api.Kill())
	b.apiAway("connection refused; check that kube-apiserver")
}

// apiserverNotReady is about a follower: its gate stays open, and it does not serve. Every node
// says so, in GATE, FLEET and WARNINGS.
func apiserverNotReady(b *broken) {
	dir := b.bundle("bundle", one)
	own, err := b.c.StartAPIServer(cluster.APIServerConfig{Name: "two"})
	b.must(err)
	asks := func(c *cluster.SidecarConfig) { c.Args = append(c.Args, "--apiserver-readyz") }
	b.start("cp-1", dir, asks)
	b.says("cp-1", "this node: leading")
	b.start("cp-2", dir, asks, kubeconfigOf(own.Kubeconfig()))
	b.ready("cp-1", "cp-2")
	b.must(own.Kill())
	why := "its kube-apiserver is not ready: |connection refused"
	b.says("cp-2", "GATE|NOT IN SERVICE for |"+why+"|its gate is ready for", "cp-2|APIServerNotReady for |yes", "WARNINGS", "cp-2|"+why)
	b.says("cp-1", "GATE|ready for", "cp-2|APIServerNotReady for |yes", "cp-2|"+why, "UPGRADE|do not start the next upgrade", "cp-2: "+why+"|; it does not serve")
	for node, serves := range map[string]string{"cp-1": "lockstep_readyz 1", "cp-2": "lockstep_readyz 0"} {
		_, metrics, err := b.sidecars[node].Get(b.Context(), "/metrics")
		b.must(err)
		if !strings.Contains(metrics, serves) || !strings.Contains(metrics, "lockstep_status_gate_ready 1") {
			b.Errorf("%s: want %s and an open gate in /metrics", node, serves)
		}
	}
}

func kubeconfigElsewhere(b *broken) {
	b.start("cp-1", b.bundle("bundle", one))
	b.ready("cp-1")
	addr, err := etcdtest.FreeAddr()
	b.must(err)
	admin := b.api.Config()
	closed := b.kubeconfig("closed", "https://"+addr, b.authority(), admin.CertFile, admin.KeyFile)
	b.start("cp-2", b.bundle("new", "release: 1.1.0"), kubeconfigOf(closed))
	why := "its kube-apiserver https://" + addr + " cannot be used: GET |connection refused|the server in kubeconfig " + closed
	b.says("cp-2", "this node: withdrawn for |"+why)
	b.says("cp-1", "cp-2|"+why, "cp-2|withdrawn")
}

func etcdStopped(b *broken) {
	b.start("cp-1", b.bundle("bundle", one))
	b.ready("cp-1")
	b.must(b.c.Members[0].Process().Stop())
	b.says("cp-1", "ETCD|NOT CONNECTED for |"+b.c.Endpoints()[0]+": connection refused; check that etcd runs there, and --etcd-servers",
		"this node: unknown")
	b.must(b.api.Kill()) // it does not stop gracefully without its etcd
}

func etcdFull(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.ready("cp-1")
	etcdtest.Fill(b.T, b.etcd())
	b.start("cp-2", dir)
	endpoint := b.c.Endpoints()[0]
	b.says("cp-2", "ETCD|connected, but |NOSPACE|its database is full, and it refuses writes; type: etcdctl --endpoints="+endpoint+" compaction ",
		"etcdctl --endpoints="+endpoint+" alarm disarm", "GATE|NOT READY NotRegistered", "UPGRADE|do not start|the database of etcd is full")
	for _, step := range []string{"compaction", "defrag", "alarm disarm"} {
		b.types("cp-2", "etcdctl --endpoints="+endpoint+" "+step)
	}
	b.ready("cp-2")
}

func etcdNeverReached(b *broken) {
	addr, err := etcdtest.FreeAddr()
	b.must(err)
	b.start("cp-1", b.bundle("bundle", one), func(c *cluster.SidecarConfig) { c.EtcdServers = []string{"http://" + addr} })
	b.says("cp-1", "GATE|NOT READY Starting|etcd has not been reached yet: http://"+addr+": connection refused", "ETCD|NOT CONNECTED, never reached: http://"+addr)
}

func bundleDirectoryGone(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.ready("cp-1")
	b.must(os.RemoveAll(dir))
	b.says("cp-1", "cp-1|its bundle directory was rejected|"+dir+"|no such file", "UPGRADE|do not start")
}

func crdMissing(b *broken) {
	b.start("cp-1", b.bundle("bundle", one, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\n"))
	b.says("cp-1", `Widget "default/w"|correct the manifest|objects.yaml:`, "GATE|this node leads: 1 of 5 objects failed")
}

const denyAll = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: deny-limits}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]}
  validations: [{expression: "object.metadata.name != 'limits'", message: "limits are managed by the security team"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: deny-limits}
spec: {policyName: deny-limits, validationActions: [Deny]}
`

func admissionDenies(b *broken) {
	b.kubectl(denyAll, "apply", "-f", "-")
	// A policy takes effect some time after it was created.
	cluster.Await(b.T, "the policy to deny", func(context.Context) error {
		if out, err := b.tryKubectl("", "create", "configmap", "limits", "--dry-run=server"); err == nil {
			return errors.New(out)
		}
		return nil
	})
	b.start("cp-1", b.bundle("bundle", one))
	b.says("cp-1", `ConfigMap "default/limits"|limits are managed by the security team|correct the manifest|objects.yaml:`)
}

func namespaceTerminating(b *broken) {
	b.kubectl("apiVersion: v1\nkind: Namespace\nmetadata: {name: going}\nspec: {finalizers: [kubernetes]}\n", "apply", "-f", "-")
	b.kubectl("", "delete", "namespace", "going", "--wait=false")
	b.start("cp-1", b.bundle("bundle", one, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: going}\n"))
	b.says("cp-1", `ConfigMap "going/c"|being terminated`)
}

// foreignStore: one node has another --etcd-prefix. Its leader holds.
func foreignStore(b *broken) {
	b.start("cp-1", b.bundle("bundle", one))
	b.ready("cp-1")
	b.start("cp-2", b.bundle("bundle-2", one), func(c *cluster.SidecarConfig) { c.EtcdPrefix = "/locksteq/" })
	adopt := "sidecar store adopt --id |--etcd-servers=" + strings.Join(b.c.Endpoints(), ",") + " --etcd-prefix=/locksteq/"
	b.says("cp-2", "STEP|HoldForStore: the objects belong to |"+adopt, "GATE|NOT READY StatusMissing|this node leads: see STEP", "UPGRADE|do not start")
	b.says("cp-1", "GATE|ready", "STEP|KeepTarget: all objects match")
	b.must(b.sidecars["cp-1"].Stop())
	b.types("cp-2", "sidecar store adopt --id")
	b.ready("cp-2")
}

const denyMark = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: deny-lockstep}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [configmaps], resourceNames: [lockstep]}]
  validations: [{expression: "false", message: "kube-system is frozen"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: deny-lockstep}
spec: {policyName: deny-lockstep, validationActions: [Deny]}
`

// markDamaged: the leader would write the mark again at once. Here a policy does not let
// it.
func markDamaged(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.ready("cp-1")
	b.must(b.sidecars["cp-1"].Kill())
	b.kubectl("", "patch", "-n", "kube-system", "configmap", "lockstep", "--type=merge", `-p={"data":{"mark.json":"{"}}`)
	b.kubectl(denyMark, "apply", "-f", "-")
	cluster.Await(b.T, "the policy to deny", func(context.Context) error {
		if out, err := b.tryKubectl("", "annotate", "-n", "kube-system", "configmap", "lockstep", "x=y", "--dry-run=server"); err == nil {
			return errors.New(out)
		}
		return nil
	})
	b.start("cp-1", dir)
	b.says("cp-1", `this node: withdrawn for |no pass over the objects could be made |write the mark: configmaps "lockstep" is forbidden|kube-system is frozen|exclude the ConfigMap lockstep`,
		"GATE|ready", "UPGRADE|do not start|no node leads")
}

func statusCorrupt(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.ready("cp-1")
	b.must(b.api.Kill())
	b.says("cp-1", "withdrawn for |connection refused")
	b.put("kubernetes/reconciler/status", "\xff")
	b.says("cp-1", "STATUS|corrupt: ", "GATE|ready|the status is corrupt", "withdrawn for |connection refused")
}

func recordCorrupt(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.ready("cp-1")
	b.put("nodes/cp-3", "\xff")
	b.says("cp-1", "cp-3|its record is corrupt: it is not a node record|"+b.removal("cp-3"), "UPGRADE|cp-3: its record is corrupt")
	b.types("cp-1", "sidecar node remove cp-3")
}

func roleTaken(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.start("cp-2", dir)
	b.ready("cp-1", "cp-2")
	program := filepath.Join(cluster.Assets(b.T, "sidecar"), "sidecar")
	b.run(program, "node", "set-roles", "cp-2", "kubernetes_worker", "--etcd-servers="+b.c.Endpoints()[0])
	b.says("cp-2", "GATE|NOT READY NotController|sidecar node set-roles cp-2 --add kubernetes_controller --etcd-servers="+b.c.Endpoints()[0], "this node: ineligible")
	b.types("cp-2", "sidecar node set-roles cp-2 --add")
	b.ready("cp-2")
}

// serviceCrashes has a service that ends again and again, and says why on its output.
func serviceCrashes(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.ready("cp-1")
	const service = "apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: apiserver}\nrole: kubernetes_controller\nrestart: immediately\nprocess: {command: "
	file := b.service("cp-2", dir, service+"[/bin/sleep, \"9000000\"]}\n")
	b.write(file, service+"[/bin/sh, -c, \"echo 'unknown flag: --etcd-server'; exit 2\"]}\n")
	b.says("cp-2", "GATE|ready", "SERVICES", "apiserver|BackOff|no", "NOT READY  why", "apiserver  it ended: exit status 2", "| unknown flag: --etcd-server",
		"its file: "+file+", changed |ago")
	for _, node := range []string{"cp-1", "cp-2"} {
		b.says(node, "WARNINGS", `cp-2|its service "apiserver" ended (exit status 2) and is not ready again|its file: `+file, "UPGRADE|do not start the next upgrade: cp-2: ")
	}
	b.toldLater("cp-2", "Restarted: the service apiserver was started again: exit status 2", "unknown flag: --etcd-server")
}

// service starts a node with one service, waits until it is ready, and returns the service's file.
func (b *broken) service(node, bundle, text string) (file string) {
	b.Helper()
	services := filepath.Join(b.dir, "services")
	b.must(os.Mkdir(services, 0o700))
	file = filepath.Join(services, "apiserver.yaml")
	b.write(file, text)
	b.start(node, bundle, func(c *cluster.SidecarConfig) {
		c.Args = append(c.Args, "--services="+services, "--data-dir="+filepath.Join(b.dir, "data"))
	})
	b.ready(node)
	return file
}

// serviceNeverReady has a service that runs and does not become ready after a change of its
// file, for which its node took a turn, and one that is not required, for which no gate waits.
func serviceNeverReady(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.ready("cp-1")
	addr, err := etcdtest.FreeAddr()
	b.must(err)
	const service = "apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: lb}\nrole: kubernetes_controller\nprocess: {command: [/bin/sleep, \"3600\"]}\n"
	wrong := service + "readiness: {tcpSocket: {address: \"" + addr + "\"}, periodSeconds: 1}\n"
	file := func(node string) string { return filepath.Join(b.dir, "services-"+node, "20-lb.yaml") }
	for node, text := range map[string]string{"cp-2": service, "cp-3": wrong + "required: false\n"} {
		services := filepath.Dir(file(node))
		b.must(os.Mkdir(services, 0o700))
		b.write(file(node), text)
		b.start(node, dir, func(c *cluster.SidecarConfig) {
			c.Args = append(c.Args, "--services="+services, "--data-dir="+filepath.Join(b.dir, "data-"+node))
		})
	}
	b.ready("cp-2", "cp-3")
	b.write(file("cp-2"), wrong)
	limited, cancel := context.WithTimeout(b.Context(), 3*nodeservices.Patience)
	defer cancel()
	b.must(cluster.Poll(limited, statusHas(b.sidecars["cp-1"], `"reason": "ServiceNotReady"`)))
	b.must(cluster.Poll(limited, statusHas(b.sidecars["cp-1"], `"reason": "TurnFailed"`)))
	why := `its service "lb" runs and does not become ready: |` + addr + `: connect: connection refused; its file: |/services-`
	b.says("cp-2", "GATE|NOT READY", "lb|Running|no", "UPGRADE|do not start", "cp-2: a service of it is not ready (see WARNINGS)", "cp-2|"+why)
	for _, node := range []string{"cp-1", "cp-2", "cp-3"} {
		b.says(node, "TURN|cp-2 has the turn|start again what has changed: lb|ITS WORK HAS FAILED: "+why+"|repair the file of the service on that node|sidecar turn end cp-2")
	}
	b.says("cp-3", "GATE|ready", "lb|Running|no, not required", "cp-3|"+why)
	b.says("cp-1", "cp-2|"+why, "cp-3|"+why, "cp-2: a service of it is not ready (see WARNINGS)")
}

// cordoned takes the only node out of service, which is refused, then the leader of two.
func cordoned(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.ready("cp-1")
	sidecar := filepath.Join(cluster.Assets(b.T, "sidecar"), "sidecar")
	etcd := " --etcd-servers=" + b.c.Endpoints()[0]
	refused := exec.CommandContext(b.Context(), sidecar, "cordon", "cp-1", strings.TrimSpace(etcd))
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "no other node is in service") {
		b.Errorf("the last node in service was cordoned: %v\n%s", err, out)
	}
	b.start("cp-2", dir)
	b.ready("cp-1", "cp-2")
	b.run(sidecar, "cordon", "cp-1", "--message", "etcd upgrade", strings.TrimSpace(etcd))
	// The command returns when the gate is closed and another node may lead: nothing is
	// awaited here.
	if err := b.sidecars["cp-1"].Readyz(b.Context()); err == nil || !strings.Contains(err.Error(), "Cordoned") {
		b.Errorf("the command has returned, and /readyz says %v", err)
	}
	uncordon := "to end that: sidecar uncordon cp-1" + etcd
	b.says("cp-1", "GATE|NOT READY Cordoned|until an operator ends it (etcd upgrade)|sidecar uncordon cp-1"+etcd, "this node: ineligible", "UPGRADE|do not start", "cp-1: it was taken out of service|"+uncordon)
	b.says("cp-2", "this node: leading", "cp-1|Cordoned", "UPGRADE|do not start", "cp-1: it was taken out of service|"+uncordon)
	b.must(b.sidecars["cp-1"].Kill())
	b.start("cp-1", dir)
	b.says("cp-1", "GATE|NOT READY Cordoned")
	b.types("cp-2", "sidecar uncordon cp-1")
	b.ready("cp-1")
}

func presenceWithoutGate(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.ready("cp-1")
	b.start("cp-2", dir)
	b.ready("cp-2")
	b.must(b.sidecars["cp-2"].Stop())
	b.put("presence/cp-2", "")
	b.says("cp-1", "cp-2|it is alive but reports no gate|two sidecars run with --node-id=cp-2", "UPGRADE|do not start", "cp-2: it is alive but reports no gate (see WARNINGS)")
}
