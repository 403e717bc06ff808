package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// writeBundle makes a bundle of a header's lines and of manifests.
func writeBundle(t *testing.T, header string, manifests ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bundle.yaml":  "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: test}\n" + header + "\n",
		"objects.yaml": strings.Join(manifests, "\n---\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// applyBundle makes the objects of the bundle in dir, as a leader does.
func applyBundle(t *testing.T, server *cluster.APIServer, dir string) protocol.Content {
	t.Helper()
	b, err := bundle.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := reconcile.New(reconcile.Config{RESTConfig: server.Config(), Bundle: event.New(b)})
	if err != nil {
		t.Fatal(err)
	}
	content := protocol.Content{Release: b.Version.Release, Constraints: b.Constraints, Digest: b.Digest, Epoch: 1}
	lease := func() time.Time { return time.Now().Add(time.Hour) }
	out, err := r.Reconcile(t.Context(), protocol.Work{Content: content, LeaderEpoch: 7}, lease, time.Time{})
	if err != nil || !out.Complete {
		t.Fatalf("got %+v, %v: %+v", out, err, r.Report().Get())
	}
	return content
}

const (
	settingsBefore = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\ndata: {a: '1', b: '2'}\n"
	settingsAfter  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\ndata: {a: '1', b: '3'}\n"
	oldMap         = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old, namespace: default}\ndata: {a: '1'}\n"
	wrongMap       = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wrong, namespace: default}\ndata: {a: [1]}\n"
)

func secret(value string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: token, namespace: default}\ndata: {token: " + value + "}\n"
}

func TestBundleDiff(t *testing.T) {
	server := cluster.NewAPIServer(t)
	before := writeBundle(t, "release: 1.0.0", settingsBefore, oldMap, secret("aGVsbG8="))
	applyBundle(t, server, before)
	c := command{T: t}
	kubeconfig := "--kubeconfig=" + server.Kubeconfig()
	if code, out, errs := c.run("bundle", "diff", before, kubeconfig); code != console.ExitOK || out+errs != "" {
		t.Errorf("of what is there: got exit %d and\n%s%s", code, out, errs)
	}

	code, out, errs := c.run("bundle", "diff", writeBundle(t, "release: 1.1.0", settingsAfter, secret("d29ybGQ=")), kubeconfig)
	const want = `diff -u live/ConfigMap/default/settings bundle/ConfigMap/default/settings
--- live/ConfigMap/default/settings
+++ bundle/ConfigMap/default/settings
@@ -1,7 +1,7 @@
 apiVersion: v1
 data:
   a: "1"
-  b: "2"
+  b: "3"
 kind: ConfigMap
 metadata:
   labels:
diff -u live/Secret/default/token bundle/Secret/default/token
--- live/Secret/default/token
+++ bundle/Secret/default/token
@@ -1,6 +1,6 @@
 apiVersion: v1
 data:
-  token: '*** (before)'
+  token: '*** (after)'
 kind: Secret
 metadata:
   labels:
# to be removed when no node of another release is registered any more
diff -u live/ConfigMap/default/old bundle/ConfigMap/default/old
--- live/ConfigMap/default/old
+++ bundle/ConfigMap/default/old
@@ -1,9 +0,0 @@
-apiVersion: v1
-data:
-  a: "1"
-kind: ConfigMap
-metadata:
-  labels:
-    applyset.kubernetes.io/part-of: applyset-Usm-vjRFYAuMwHKzhQvwVRPNPxTJu2hXW3kX8qTKfrs-v1
-  name: old
-  namespace: default
`
	if diff := cmp.Diff(partOf(want), partOf(out)); code != console.ExitDiffers || errs != "" || diff != "" {
		t.Errorf("got exit %d, %s and (-want +got):\n%s", code, errs, diff)
	}

	c.want(console.ExitDiffers, "# to be removed as soon as all other objects are in place\ndiff -u live/ConfigMap/default/old", "bundle", "diff",
		writeBundle(t, "release: 1.1.0\nprunePolicy: Immediately", settingsBefore, secret("aGVsbG8=")), kubeconfig)
	c.want(console.ExitTrouble, `sidecar: ConfigMap "default/wrong": `, "bundle", "diff", writeBundle(t, "release: 1.1.0", settingsBefore, wrongMap), kubeconfig)
	c.want(console.ExitDiffers, "diff -u live/StorageClass/", "bundle", "diff", "builtin", kubeconfig)
	c.want(console.ExitTrouble, "no such file", "bundle", "diff", "nowhere", kubeconfig)
	c.want(console.ExitTrouble, `kubeconfig "nowhere"`, "bundle", "diff", before, "--kubeconfig=nowhere")
	c.want(console.ExitUsage, "--kubeconfig: required: a kubeconfig file", "bundle", "diff", before)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	c.want(console.ExitTrouble, "kube-apiserver is unreachable", "bundle", "diff", before, kubeconfig)
}

// partOf leaves out the name of the set.
func partOf(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if before, _, found := strings.Cut(line, "part-of: "); found {
			lines[i] = before + "part-of"
		}
	}
	return strings.Join(lines, "\n")
}
