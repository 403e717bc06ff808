package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/deploy/kubeadm"
	"github.com/lockstep-dev/lockstep/internal/app"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// A user with the documented rights, and no others, is enough for a sidecar: it applies
// the built-in bundle, watches it without a problem, and repairs what others change. The
// user cannot write, or read, another ConfigMap of kube-system. What sidecar kubeadm --check
// finds missing is what the manifests give.
func TestDocumentedRights(t *testing.T) {
	t.Parallel()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar", "kubectl")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	b := &broken{T: t, c: c, api: api, dir: t.TempDir(), sidecars: map[string]*cluster.Sidecar{}}
	cert, key, err := c.ClientCertificate(kubeadm.User("cp-1"), time.Now().Add(time.Hour), kubeadm.Group)
	b.must(err)
	kubeconfig := b.kubeconfig("lockstep", api.URL(), b.authority(), cert, key)
	b.misses(kubeconfig, "create configmaps in kube-system", "get, list, watch, create, patch, delete priorityclasses.scheduling.k8s.io",
		"get, list, watch, create, patch, delete, escalate, bind clusterroles.rbac.authorization.k8s.io")
	b.kubectl("", "apply", "-k", "../../deploy/kubeadm/cluster")
	cluster.Await(t, "all rights", func(context.Context) error { // RBAC is cached
		if missing := b.missing(kubeconfig); len(missing) > 0 {
			return fmt.Errorf("missing: %v", missing)
		}
		return nil
	})
	b.start("cp-1", "", kubeconfigOf(kubeconfig), func(c *cluster.SidecarConfig) {
		c.Args = append(c.Args, "--kubernetes-service", "--apiserver-address=192.0.2.1") // of documentation: no request goes there
	})
	b.ready("cp-1")
	cluster.Await(t, "the Service kubernetes to be written", statusHas(b.sidecars["cp-1"], `"reason": "Published",`))
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
		out, err := b.tryKubectl("", append([]string{"auth", "can-i", "-n", "kube-system", "--as=" + kubeadm.User("cp-1"), "--as-group=" + kubeadm.Group}, args...)...)
		if err == nil || !strings.HasPrefix(out, "no") {
			t.Errorf("%v: got %s", args, out)
		}
	}
}

// missing returns the rights that the user of a kubeconfig needs and has not.
func (b *broken) missing(kubeconfig string) []string {
	b.Helper()
	access, err := app.NewAccess(kubeconfig)
	b.must(err)
	builtin, err := bundle.Builtin()
	b.must(err)
	out, err := access.Missing(b.Context(), app.Needs{Bundle: builtin, KubernetesService: true})
	b.must(err)
	return out
}

// misses requires that rights are missing.
func (b *broken) misses(kubeconfig string, rights ...string) {
	b.Helper()
	missing := b.missing(kubeconfig)
	for _, right := range rights {
		if !slices.Contains(missing, right) {
			b.Errorf("want %q among the missing rights %v", right, missing)
		}
	}
}
