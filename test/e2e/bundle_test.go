package e2e_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// startSidecar starts a sidecar that is stopped when the test ends.
func startSidecar(t *testing.T, c *cluster.Cluster, cfg cluster.SidecarConfig) *cluster.Sidecar {
	t.Helper()
	s, err := c.StartSidecar(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// statusContains returns a function that waits until /status contains a text. It
// ignores white space.
func statusContains(t *testing.T, s *cluster.Sidecar) func(what, text string) {
	return func(what, text string) {
		t.Helper()
		cluster.Await(t, what, func(ctx context.Context) error {
			_, body, err := s.Get(ctx, "/status")
			if err == nil && !strings.Contains(strings.Join(strings.Fields(body), ""), text) {
				err = fmt.Errorf("want %s in %s", text, body)
			}
			return err
		})
	}
}

// bundleDir is a bundle's directory that a test changes.
type bundleDir struct {
	t   *testing.T
	dir string
}

func (f bundleDir) write(files map[string]string) {
	f.t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f bundleDir) empty() {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(f.dir, "*"))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			f.t.Fatal(err)
		}
	}
}

const (
	bundleHeader = "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: e2e}\nrelease: 1.0.0\nprunePolicy: Immediately\n"
	password     = "correct-horse-battery-staple"
)

func manifest(kind, name, more string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: %s, namespace: default}\n%s\n", kind, name, more)
}

// TestEmptiedDirectory empties the bundle's directory while the sidecar runs. A copy
// that fails or a ConfigMap that is mounted too late can do that. The sidecar deletes
// nothing, keeps repairing the objects, and reports the problem. It never shows the
// value of a Secret.
func TestEmptiedDirectory(t *testing.T) {
	t.Parallel()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	of := func(resource string) dynamic.ResourceInterface {
		return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace("default")
	}
	f := bundleDir{t: t, dir: t.TempDir()}
	files := map[string]string{
		"bundle.yaml": bundleHeader, "a.yaml": manifest("ConfigMap", "a", ""), "b.yaml": manifest("ConfigMap", "b", ""),
		"s.yaml": manifest("Secret", "s", "stringData: {password: "+password+"}"),
		"t.yaml": manifest("Secret", "t", "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: "+password+"}") +
			"# the API refuses it\n",
	}
	cfg := cluster.SidecarConfig{NodeID: "one", Kubeconfig: api.Kubeconfig(), Bundle: f.dir, Args: []string{"--log-level=debug"}}
	if _, err := c.StartSidecar(cfg); err == nil || !strings.Contains(err.Error(), f.dir+": has no bundle.yaml") {
		t.Fatalf("got %v, want a sidecar without a bundle to report that and end", err)
	}

	files["t.yaml"] = strings.Replace(files["t.yaml"], "namespace: default", `namespace: default, annotations: {lockstep.dev/required: "false"}`, 1)
	f.write(files)
	s := startSidecar(t, c, cfg)
	await := statusContains(t, s)
	await("the objects to be watched", `"watching":true`)
	await("the Secret that is refused to be named", `"object":"Secret\"default/t\"","message":"refused(Invalid)`)

	for _, tt := range []struct{ left, problem string }{
		{"", `:hasnobundle.yaml`}, {"bundle.yaml", `:hasnomanifests`},
	} {
		f.empty()
		if tt.left != "" {
			f.write(map[string]string{tt.left: files[tt.left]})
		}
		await("the problem of the directory", `"bundleProblem":"`+f.dir+tt.problem)
		if err := of("configmaps").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		cluster.Await(t, "the deleted object to be restored", func(ctx context.Context) error {
			_, err := of("configmaps").Get(ctx, "a", metav1.GetOptions{})
			return err
		})
		for resource, name := range map[string]string{"configmaps": "b", "secrets": "s"} {
			if _, err := of(resource).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
				t.Errorf("with %q left in the directory: %v", tt.left, err)
			}
		}
	}

	delete(files, "b.yaml")
	f.write(files)
	await("the directory to be valid", `"bundleProblem":""`)
	cluster.Await(t, "the object that the bundle dropped to be deleted", func(ctx context.Context) error {
		_, err := of("configmaps").Get(ctx, "b", metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("it exists")
		}
		return nil
	})
	wantUnseen(t, s, password)
}

// wantUnseen fails the test if a sidecar logged or showed a Secret's value.
func wantUnseen(t *testing.T, s *cluster.Sidecar, value string) {
	t.Helper()
	log, err := os.ReadFile(s.LogFile())
	if err != nil || !strings.Contains(string(log), "level=DEBUG") {
		t.Fatalf("got no debug log (%v)", err)
	}
	shown := map[string]string{"the log": string(log)}
	for _, path := range []string{"/", "/status", "/metrics", "/statusz", "/flagz", "/readyz?verbose", "/leader"} {
		_, body, err := s.Get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		shown[path] = body
	}
	for where, text := range shown {
		for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
			if strings.Contains(text, form) {
				t.Errorf("%s shows %s", where, form)
			}
		}
	}
}
