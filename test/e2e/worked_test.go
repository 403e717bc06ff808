package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// worked is the upgrade of docs/bundles.md, with the files of the page.
type worked struct {
	t        *testing.T
	cluster  *cluster.Cluster
	api      *cluster.APIServer
	client   *dynamic.DynamicClient
	dir      string // of the bundles
	blocks   []string
	sidecars map[string]*cluster.Sidecar
}

func newWorked(t *testing.T) *worked {
	t.Helper()
	w := &worked{t: t, cluster: cluster.NewForTest(t, "kube-apiserver", "sidecar"), dir: t.TempDir(), sidecars: map[string]*cluster.Sidecar{}}
	text, err := os.ReadFile("../../docs/bundles.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "### An upgrade, worked through")
	section, _, ended := strings.Cut(section, "\n## ")
	if !found || !ended {
		t.Fatal("docs/bundles.md has no worked upgrade")
	}
	for i, block := range strings.Split(section, "```") {
		if i%2 == 0 {
			continue
		}
		if file, isFile := strings.CutPrefix(block, "yaml\n# "); isFile {
			name, body, _ := strings.Cut(file, "\n")
			w.write(name, body)
			continue
		}
		w.blocks = append(w.blocks, block)
	}
	if w.api, err = w.cluster.StartAPIServer(cluster.APIServerConfig{Name: "all"}); err != nil {
		t.Fatal(err)
	}
	if w.client, err = dynamic.NewForConfig(w.api.Config()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *worked) write(name, text string) {
	w.t.Helper()
	file := filepath.Join(w.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

// roll stops a node's sidecar, if it runs, and starts it with a release.
func (w *worked) roll(node, release string) {
	w.t.Helper()
	if s := w.sidecars[node]; s != nil {
		if err := s.Stop(); err != nil {
			w.t.Fatal(err)
		}
	}
	noDelay := time.Duration(0)
	s, err := w.cluster.StartSidecar(cluster.SidecarConfig{
		NodeID: node, Kubeconfig: w.api.Kubeconfig(), Bundle: filepath.Join(w.dir, "platform-"+release), ShutdownDelay: &noDelay,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.sidecars[node] = s
	cluster.Await(w.t, node+" to be ready", s.Readyz)
}

// sidecar runs a command in the directory of the bundles.
func (w *worked) sidecar(args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(cluster.Assets(w.t, "sidecar"), "sidecar"), args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "LOCKSTEP_ETCD_SERVERS="+strings.Join(w.cluster.Etcd.Endpoints(), ","))
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("sidecar %q: %v: %s", args, err, out)
	}
	return string(out)
}

// wantBlock waits until `sidecar status` on cp-1 prints a block of the page.
func (w *worked) wantBlock(block string) {
	w.t.Helper()
	cluster.Await(w.t, "the status of the page", func(context.Context) error {
		out := w.sidecar("status", "--server", w.sidecars["cp-1"].URL())
		for line := range strings.Lines(block) {
			if line = strings.TrimSpace(line); !strings.Contains(out, line) {
				return fmt.Errorf("want %q in\n%s", line, out)
			}
		}
		return nil
	})
}

func (w *worked) find(resource, name string) (*unstructured.Unstructured, error) {
	return w.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace("platform").Get(w.t.Context(), name, metav1.GetOptions{})
}

func (w *worked) get(resource, name string) *unstructured.Unstructured {
	w.t.Helper()
	obj, err := w.find(resource, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return obj
}

func (w *worked) awaitDeleted(resource, name string) {
	w.t.Helper()
	cluster.Await(w.t, name+" to be deleted", func(context.Context) error {
		_, err := w.find(resource, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("got %w, want it deleted", err)
	})
}

func (w *worked) wantSetting(want string) {
	w.t.Helper()
	if got, _, _ := unstructured.NestedString(w.get("configmaps", "settings").Object, "data", "b"); got != want {
		w.t.Errorf("got b: %q, want %q", got, want)
	}
}

// TestWorkedUpgrade does the upgrade of docs/bundles.md with the manifests of the page.
// It wants the same output, word for word.
func TestWorkedUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorked(t)
	if len(w.blocks) != 3 {
		t.Fatalf("got blocks %q, want the plan and two parts of a status", w.blocks)
	}
	for _, node := range []string{"cp-3", "cp-1", "cp-2"} {
		w.roll(node, "1.0.0")
	}
	old := w.get("configmaps", "old")
	w.wantSetting("2")

	_ = w.sidecar("bundle", "validate", "platform-1.1.0", "--from", "1.0.0")
	_, plan, _ := strings.Cut(w.blocks[0], "admin.conf\n")
	if got := w.sidecar("plan", "--bundle", "platform-1.1.0", "--kubeconfig", w.api.Kubeconfig()); got != plan {
		t.Errorf("got\n%s\nwant\n%s", got, plan)
	}

	w.roll("cp-1", "1.1.0")
	w.wantBlock(w.blocks[1])
	w.wantSetting("3")
	_ = w.get("secrets", "token")

	w.roll("cp-1", "1.0.0")
	w.awaitDeleted("secrets", "token")
	w.wantSetting("2")

	w.roll("cp-1", "1.1.0")
	w.wantBlock(w.blocks[1])
	w.roll("cp-2", "1.1.0")
	if now := w.get("configmaps", "old"); now.GetResourceVersion() != old.GetResourceVersion() || now.GetUID() != old.GetUID() {
		t.Errorf("got %v, want it untouched: %v", now, old)
	}
	w.roll("cp-3", "1.1.0")
	w.awaitDeleted("configmaps", "old")
	w.wantBlock(w.blocks[2])
}
