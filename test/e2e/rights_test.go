package e2e_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// documentedRights are the manifests of docs/operations.md#rights.
func documentedRights(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rights, _ := strings.Cut(string(page), "\n## Rights\n")
	manifests := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(rights)
	if manifests == nil {
		t.Fatal("the page has no manifests")
	}
	return manifests[1]
}

// A user with the documented rights, and no others, is enough for a sidecar: it applies
// the built-in bundle, watches it without a problem, and repairs what others change. The
// user cannot write, or read, another ConfigMap of kube-system.
func TestDocumentedRights(t *testing.T) {
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar", "kubectl")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	b := &broken{T: t, c: c, api: api, dir: t.TempDir(), sidecars: map[string]*cluster.Sidecar{}}
	b.kubectl(documentedRights(t), "apply", "-f", "-")
	cert, key, err := c.ClientCertificate("lockstep", time.Now().Add(time.Hour))
	b.must(err)
	b.start("cp-1", "", kubeconfigOf(b.kubeconfig("lockstep", api.URL(), b.authority(), cert, key)))
	b.ready("cp-1")
	cluster.Await(t, "all kinds to be watched", statusHas(b.sidecars["cp-1"], `"watching": true,`))
	cluster.Await(t, "no problem with the watches", statusHas(b.sidecars["cp-1"], `"problem": "",`))
	b.kubectl("", "annotate", "-n", "kube-system", "configmap", "lockstep", "applyset.kubernetes.io/tooling-")
	cluster.Await(t, "the parent to be repaired", func(context.Context) error {
		out, err := b.tryKubectl("", "get", "-n", "kube-system", "configmap", "lockstep", "-o", "yaml")
		if err == nil && !strings.Contains(out, "applyset.kubernetes.io/tooling") {
			err = fmt.Errorf("got %s", out)
		}
		return err
	})
	b.kubectl("", "wait", "flowschema/lockstep", "--for=condition=Dangling=false", "--timeout=20s")
	for _, args := range [][]string{
		{"get", "configmap/extension-apiserver-authentication"}, {"list", "configmaps"}, {"update", "configmap/coredns"}, {"get", "secrets"},
	} {
		out, err := b.tryKubectl("", append([]string{"auth", "can-i", "-n", "kube-system", "--as=lockstep"}, args...)...)
		if err == nil || !strings.HasPrefix(out, "no") {
			t.Errorf("%v: got %s", args, out)
		}
	}
}
