package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// platform is a bundle with a kind of its own, an object of that kind, and a ConfigMap.
const platform = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: widgets, singular: widget, kind: Widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: own}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: platform, namespace: default}
`

// TestOtherBundle restarts all nodes with the built-in bundle, as after a flag that was
// forgotten. Every object of the platform stays as it is, and each node names in its first row
// the problem and the command to type. With the platform's bundle again, it is ready, without a problem.
func TestOtherBundle(t *testing.T) {
	t.Parallel()
	server := cluster.NewAPIServer(t)
	p := &plane{T: t, rig: New(t, "")}
	p.rig.Kubeconfig = server.Kubeconfig()
	dir := p.platformBundle()
	a, b, c := p.three(dir, dir, dir)
	nodes := []*Node{a, b, c}
	for _, n := range nodes {
		p.awaitGate(n, "")
	}
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	before := versions(t, client)

	for _, n := range nodes {
		p.restart(n, "--bundle=builtin")
	}
	cluster.Await(t, "the leader to hold", func(ctx context.Context) error {
		for _, n := range nodes {
			if _, text, err := n.Get(ctx, "/status"); err == nil && strings.Contains(text, string(protocol.HoldForBundle)) {
				return nil
			}
		}
		return errors.New("no node holds")
	})
	for _, n := range nodes {
		p.awaitFirstRow(n, `OTHER BUNDLE: .*the objects are of the bundle platform.*with the bundle platform`+
			` \(--bundle\), or if base is meant to replace platform: sidecar bundle replace --from platform --to base --data-dir=`)
	}
	if now := versions(t, client); !maps.Equal(now, before) {
		t.Errorf("the objects of the platform were touched: %v, and before %v", now, before)
	}
	if _, err := client.Resource(storageClasses).Get(t.Context(), "standard", metav1.GetOptions{}); err == nil {
		t.Error("an object of the built-in bundle is there")
	}

	for _, n := range nodes {
		p.restart(n, dir)
	}
	for _, n := range nodes {
		p.awaitGate(n, "")
		cluster.Await(t, n.ID+" to say that it has no problem", func(ctx context.Context) error {
			if out, err := n.tryCommand(t, "status", "--server", n.URL()); err != nil || strings.Contains(out, "PROBLEM") {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
	if now := versions(t, client); !maps.Equal(now, before) {
		t.Errorf("the objects of the platform were touched: %v, and before %v", now, before)
	}
}

var storageClasses = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}

// platformBundle writes the bundle, and returns its flag.
func (p *plane) platformBundle() string {
	p.Helper()
	dir := p.TempDir()
	for file, text := range map[string]string{
		"bundle.yaml":  "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: platform}\nrelease: 1.0.0\nprunePolicy: Immediately\n",
		"objects.yaml": platform,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			p.Fatal(err)
		}
	}
	return "--bundle=" + dir
}

// awaitFirstRow waits until the table of a node begins with a problem, and types the command
// there with another name, so that it changes nothing: it contains all the flags that it needs.
func (p *plane) awaitFirstRow(n *Node, want string) {
	p.Helper()
	row := regexp.MustCompile(`^PROBLEM +` + want)
	first := ""
	cluster.Await(p.T, n.ID+" to say first what is wrong", n.OnChange(func(context.Context) error {
		out, err := n.tryCommand(p.T, "status", "--server", n.URL())
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if first, _, _ = strings.Cut(out, "\n"); !row.MatchString(first) {
			return fmt.Errorf("got\n%s", out)
		}
		return nil
	}))
	typed := regexp.MustCompile(`sidecar bundle replace [^;,)]*`).FindString(first)
	cmd := exec.CommandContext(p.Context(), "/bin/sh", "-c", strings.Replace(typed, "--to base", "--to nothing", 1))
	cmd.Env = append(os.Environ(), "PATH="+cluster.Assets(p.T, "sidecar")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "no registered node runs the bundle nothing") {
		p.Errorf("%s prints %q; with another name: %v: %s", n.ID, typed, err, out)
	}
}

// versions are the resourceVersions of the objects of the platform.
func versions(t *testing.T, client dynamic.Interface) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, resource := range map[string]schema.GroupVersionResource{
		"widgets.example.com": {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		"own":                 {Group: "example.com", Version: "v1", Resource: "widgets"},
		"platform":            {Version: "v1", Resource: "configmaps"},
	} {
		var objects dynamic.ResourceInterface = client.Resource(resource)
		if name == "platform" {
			objects = client.Resource(resource).Namespace("default")
		}
		o, err := objects.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = o.GetResourceVersion()
	}
	return out
}
