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

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestRemoval types the commands with which docs/operations.md removes Lockstep from a
// cluster. The object of the bundle stays, without any mark of Lockstep. A sidecar that is
// started after that starts afresh.
func TestRemoval(t *testing.T) {
	t.Parallel()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar", "kubectl")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	r := &removal{T: t, cluster: c, api: api}
	first := r.start("1.0.0")
	r.awaitEpoch(first, 1)
	r.wantStatement("lockstep.dev/content-epoch: \"1\"", true)
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	second := r.start("1.1.0")
	r.awaitEpoch(second, 2)

	script := r.script()
	if out, err := r.shell(script); err == nil || !strings.Contains(out, "in use by the sidecars") || strings.Contains(out, "lockstep-fence") {
		t.Errorf("while a sidecar is alive: got %v and %s, want that nothing is changed", err, out)
	}
	if err := second.Stop(); err != nil {
		t.Fatal(err)
	}
	if out, err := r.shell(script); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.wantStatement("lockstep", false)
	r.wantStatement("release: 1.1.0", true)
	third := r.start("1.1.0")
	r.awaitEpoch(third, 1)
}

type removal struct {
	*testing.T
	cluster *cluster.Cluster
	api     *cluster.APIServer
}

// start starts the sidecar with a bundle of one object.
func (r *removal) start(release string) *cluster.Sidecar {
	r.Helper()
	dir := r.TempDir()
	for name, text := range map[string]string{
		"bundle.yaml": "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: platform}\n" +
			"release: " + release + "\nminReconcilerRelease: 1.0.0\nminApiserverRelease: 1.0.0\n",
		"object.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: platform, namespace: default}\ndata: {release: " + release + "}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			r.Fatal(err)
		}
	}
	noDelay := time.Duration(0)
	s, err := r.cluster.StartSidecar(cluster.SidecarConfig{NodeID: "cp-1", Kubeconfig: r.api.Kubeconfig(), Bundle: dir, ShutdownDelay: &noDelay})
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// awaitEpoch waits until the status is DONE with a content epoch.
func (r *removal) awaitEpoch(s *cluster.Sidecar, epoch int) {
	r.Helper()
	cluster.Await(r.T, fmt.Sprintf("the content epoch %d", epoch), func(ctx context.Context) error {
		_, body, err := s.Get(ctx, "/status")
		if err == nil && !strings.Contains(body, fmt.Sprintf(`"contentEpoch": %d,`, epoch)) || !strings.Contains(body, `"state": "DONE"`) {
			err = fmt.Errorf("got %s", body)
		}
		return errors.Join(err, s.Readyz(ctx))
	})
}

// wantStatement requires that the object of the bundle contains a text, or does not.
func (r *removal) wantStatement(part string, has bool) {
	r.Helper()
	out, err := r.shell("kubectl get configmap platform -n default -o yaml --show-managed-fields=false")
	if err != nil || strings.Contains(out, part) != has {
		r.Errorf("%q: got %v and %s, want it: %t", part, err, out, has)
	}
}

// script returns the commands that people type from the page.
func (r *removal) script() string {
	r.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		r.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n### Remove Lockstep from a cluster\n")
	section, _, ended := strings.Cut(section, "\n## ")
	var out []string
	for line := range strings.Lines(section) {
		if command, is := strings.CutPrefix(strings.TrimSpace(line), "$ "); is {
			out = append(out, command)
		}
	}
	if !found || !ended || len(out) != 7 {
		r.Fatalf("docs/operations.md has %q, want seven commands", out)
	}
	return strings.ReplaceAll(strings.Join(out, "\n"), "https://10.0.0.1:2379", strings.Join(r.cluster.Endpoints(), ","))
}

// shell runs commands until one fails, with the programs of the test in the path.
func (r *removal) shell(script string) (string, error) {
	cmd := exec.CommandContext(r.Context(), "sh", "-ec", script)
	assets, err := filepath.Abs(cluster.Assets(r.T, "kubectl", "sidecar"))
	if err != nil {
		r.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "PATH="+assets+":"+os.Getenv("PATH"), "KUBECONFIG="+r.api.Kubeconfig())
	out, err := cmd.CombinedOutput()
	return string(out), err
}
