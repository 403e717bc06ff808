package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lockstep-dev/lockstep/internal/kubeadm"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// kubeadmNode is a control plane node as kubeadm leaves it, for sidecar kubeadm. kube-apiserver
// does not run in a pod: the test starts it.
type kubeadmNode struct {
	*broken
	files, kubernetes string // /etc/lockstep and /etc/kubernetes
}

// podManifest is what kubeadm writes before it applies patches, without what no patch names.
const podManifest = `apiVersion: v1
kind: Pod
metadata:
  name: kube-apiserver
  namespace: kube-system
  annotations: {kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: "ADDRESS"}
spec:
  containers:
  - name: kube-apiserver
    image: kube-apiserver
    command: [kube-apiserver]
    volumeMounts: [{name: k8s-certs, mountPath: PKI, readOnly: true}]
  volumes: [{name: k8s-certs, hostPath: {path: PKI}}]
`

func (b *broken) kubeadmNode() *kubeadmNode {
	b.Helper()
	n := &kubeadmNode{broken: b, files: filepath.Join(b.dir, "lockstep"), kubernetes: filepath.Join(b.dir, "kubernetes")}
	pki := filepath.Join(n.kubernetes, "pki")
	b.must(os.MkdirAll(filepath.Join(pki, "etcd"), 0o700))
	b.must(os.MkdirAll(filepath.Join(n.kubernetes, "manifests"), 0o700))
	b.must(b.c.WriteAuthority(filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key")))
	b.must(b.c.WriteAuthority(filepath.Join(pki, "etcd/ca.crt"), filepath.Join(pki, "etcd/ca.key")))
	b.must(b.c.WriteAuthority(filepath.Join(pki, "apiserver-etcd-client.crt"), filepath.Join(pki, "apiserver-etcd-client.key")))
	return n
}

// try runs sidecar kubeadm on the node.
func (n *kubeadmNode) try(args ...string) (string, error) {
	n.Helper()
	program := filepath.Join(cluster.Assets(n.T, "sidecar"), "sidecar")
	args = append([]string{"kubeadm", "--dir=" + n.files, "--kubernetes-dir=" + n.kubernetes, "--node-id=cp-1", "--apiserver-url=" + n.api.URL()}, args...)
	out, err := exec.CommandContext(n.Context(), program, args...).CombinedOutput()
	return string(out), err
}

func (n *kubeadmNode) ok(args ...string) {
	n.Helper()
	if out, err := n.try(args...); err != nil {
		n.Fatalf("sidecar kubeadm %v: %v\n%s", args, err, out)
	}
}

// documentation is an address of documentation: no request goes there.
const documentation = "--apiserver-address=192.0.2.1"

// prepare writes the node's files for a bundle, and applies the patches as kubeadm does. The check
// names the rights that are missing then.
func (n *kubeadmNode) prepare(bundle string, missing ...string) {
	n.Helper()
	n.ok("--image=lockstep.dev/lockstep:v0.1.0", "--bundle="+bundle, "--", "--kubernetes-service", documentation)
	written := filepath.Join(n.kubernetes, "manifests/kube-apiserver.yaml")
	pki := filepath.Join(n.kubernetes, "pki")
	text := strings.NewReplacer("ADDRESS", strings.TrimPrefix(n.api.URL(), "https://"), "PKI", pki).Replace(podManifest)
	for _, patch := range []string{kubeadm.FlagsPatch, kubeadm.PodPatch} {
		n.write(written, text)
		_, kind, _ := strings.Cut(strings.TrimSuffix(patch, ".yaml"), "+")
		file := filepath.Join(n.files, kubeadm.PatchesDir, patch)
		out, err := n.tryKubectl("", "patch", "--local", "-f", written, "--type="+kind, "--patch-file="+file, "-o", "yaml")
		if err != nil {
			n.Fatalf("%s: %v\n%s", patch, err, out)
		}
		text = out
	}
	n.write(written, text)
	out, err := n.try("--check")
	for _, right := range missing {
		if err == nil || !strings.Contains(out, "RightsMissing") || !strings.Contains(out, right) {
			n.Errorf("want %q among the missing rights, got %v\n%s", right, err, out)
		}
	}
}

// grants gives the sidecars the rights in the node's files, and returns those for the bundle.
func (n *kubeadmNode) grants() string {
	n.Helper()
	dir := filepath.Join(n.files, kubeadm.ClusterDir)
	n.kubectl("", "apply", "-k", dir)
	cluster.Await(n.T, "the check to find no problem", func(context.Context) error { // RBAC is cached
		out, err := n.try("--check")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	printed, err := os.ReadFile(filepath.Join(dir, kubeadm.BundleRights))
	n.must(err)
	return string(printed)
}

// run starts the sidecar with the node's identity and the bundle of a release, and waits until the
// objects are those of that release.
func (n *kubeadmNode) run(release string) {
	n.Helper()
	dir := filepath.Join(n.files, kubeadm.BundlesDir, release)
	n.start("cp-1", dir, kubeconfigOf(filepath.Join(n.files, kubeadm.KubeconfigFile)), func(c *cluster.SidecarConfig) {
		c.Args = append(c.Args, "--kubernetes-service", documentation)
	})
	n.ready("cp-1")
	cluster.Await(n.T, "the objects to be at "+release, statusHas(n.sidecars["cp-1"], `"state": "DONE",`))
	cluster.Await(n.T, "the objects to be at "+release, statusHas(n.sidecars["cp-1"], `"version": "`+release+`",`))
}
