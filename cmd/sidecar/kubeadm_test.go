package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/kubeadmnode"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
)

// kubeadmNode is a node of kubeadm, in directories of the test.
type kubeadmNode struct {
	*testing.T
	dir, kubernetes string
	authority       *x509.Certificate
	key             *ecdsa.PrivateKey
}

func newKubeadmNode(t *testing.T) *kubeadmNode {
	t.Helper()
	n := &kubeadmNode{T: t, dir: filepath.Join(t.TempDir(), "lockstep"), kubernetes: filepath.Join(t.TempDir(), "kubernetes")}
	return n
}

// call runs sidecar kubeadm for the node.
func (n *kubeadmNode) call(args ...string) (code int, stdout, stderr string) {
	n.Helper()
	p := program{Program: console.Program{Now: func() time.Time { return noon }}}
	return call(n.T, p, append([]string{"kubeadm", "--dir", n.dir, "--kubernetes-dir", n.kubernetes, "--node-id", "cp-1"}, args...)...)
}

func (n *kubeadmNode) ok(args ...string) string {
	n.Helper()
	code, stdout, stderr := n.call(args...)
	if code != console.ExitOK {
		n.Fatalf("got exit code %d: %s%s", code, stdout, stderr)
	}
	return stdout
}

func (n *kubeadmNode) write(file string, content []byte) {
	n.Helper()
	path := filepath.Join(n.kubernetes, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		n.Fatal(err)
	}
}

func (n *kubeadmNode) read(path string) string {
	n.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		n.Fatal(err)
	}
	return string(content)
}

// makeCA makes a CA as kubeadm init phase certs does.
func (n *kubeadmNode) makeCA() {
	n.Helper()
	var err error
	if n.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		n.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(5 * 365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, n.key.Public(), n.key)
	if err != nil {
		n.Fatal(err)
	}
	if n.authority, err = x509.ParseCertificate(der); err != nil {
		n.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(n.key)
	if err != nil {
		n.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	n.write("pki/ca.crt", cert)
	n.write("pki/ca.key", private)
	for _, file := range []string{"pki/etcd/ca.crt", "pki/apiserver-etcd-client.crt"} {
		n.write(file, cert)
	}
	n.write("pki/apiserver-etcd-client.key", private)
}

// runKubeadm writes a manifest as kubeadm does with the patches of the node.
func (n *kubeadmNode) runKubeadm(server string) {
	n.Helper()
	patch := n.read(filepath.Join(n.dir, kubeadm.PatchesDir, kubeadm.PodPatch))
	line := []string{"kube-apiserver"}
	for _, add := range strings.Split(n.read(filepath.Join(n.dir, kubeadm.PatchesDir, kubeadm.FlagsPatch)), "command/-, value: ")[1:] {
		value, _, _ := strings.Cut(add, "}")
		line = append(line, value)
	}
	_, spec, _ := strings.Cut(patch, "spec:\n")
	spec = strings.Replace(spec, "  - name: kube-apiserver # stays the first\n", "  - name: kube-apiserver\n    command: ["+strings.Join(line, ", ")+"]\n", 1)
	spec = strings.Replace(spec, "  volumes:\n", "  volumes:\n  - {name: k8s-certs, hostPath: {path: "+n.kubernetes+"/pki}}\n", 1)
	n.write("manifests/kube-apiserver.yaml", []byte(`metadata:
  annotations: {kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: "`+strings.TrimPrefix(server, "https://")+`"}
spec:
`+spec))
}

// api is a kube-apiserver that denies some rights.
func (n *kubeadmNode) api(denied ...string) *httptest.Server {
	n.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "APIResourceList", "resources": []any{
				map[string]any{"name": "clusterroles", "kind": "ClusterRole"}, map[string]any{"name": "priorityclasses", "kind": "PriorityClass"},
			}})
			return
		}
		var review struct {
			Spec struct {
				ResourceAttributes struct{ Verb, Resource, Name string }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		allowed := true
		for _, one := range denied {
			if a := review.Spec.ResourceAttributes; strings.TrimSpace(a.Verb+" "+a.Resource+" "+a.Name) == one {
				allowed = false
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{"allowed": allowed}})
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that end before they are used
	server.StartTLS()
	n.Cleanup(server.Close)
	return server
}

// trust makes the kubeconfig of the node trust a server of the test.
func (n *kubeadmNode) trust(server *httptest.Server) {
	n.Helper()
	file := filepath.Join(n.dir, kubeadm.KubeconfigFile)
	var lines []string
	for line := range strings.Lines(n.read(file)) {
		if strings.Contains(line, "certificate-authority-data") {
			line = "    certificate-authority: " + filepath.Join(n.dir, "server.crt") + "\n"
		}
		lines = append(lines, line)
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
		n.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(n.dir, "server.crt"), cert, 0o600); err != nil {
		n.Fatal(err)
	}
}

func writeRelease(t *testing.T, version, more string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bundle.yaml":       "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: test}\nrelease: " + version + "\n",
		"sub/priority.yaml": "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: x}\nvalue: 1\n" + more,
		"README.txt":        "not a manifest",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestKubeadm goes the way of a node: patches before kubeadm init, the identity after it,
// the next release before kubeadm upgrade; the check finds nothing wrong in between.
func TestKubeadm(t *testing.T) {
	n := newKubeadmNode(t)
	server := n.api()
	out := n.ok("--image=lockstep:1.0.0", "--bundle", writeRelease(t, "1.0.0", ""), "--", "--expire-dead-nodes=10m")
	for _, want := range []string{"kubeadm init --patches " + n.dir + "/patches", "has made no CA", "sidecar kubeadm --dir=" + n.dir, " --node-id=cp-1 ", "release 1.0.0, 1 object"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in:\n%s", want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(n.dir, "bundles/1.0.0/README.txt")); err == nil {
		t.Error("copied a file that is no manifest")
	}

	n.makeCA()
	n.runKubeadm(server.URL)
	out = n.ok()
	if strings.Contains(out, "kubeadm upgrade") || !strings.Contains(out, "user lockstep:cp-1 at "+server.URL+", valid until 2027-11-21") {
		t.Errorf("got\n%s", out)
	}
	kubeconfig := filepath.Join(n.dir, kubeadm.KubeconfigFile)
	if info, err := os.Stat(kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got the mode %v, %v", info.Mode(), err)
	}
	n.trust(server)
	if out := n.ok("--check"); out != "node cp-1: no problem found\n" {
		t.Errorf("got\n%s", out)
	}

	// Flags that are not set stay.
	out = n.ok("--image=lockstep:1.1.0", "--bundle", writeRelease(t, "1.1.0", ""))
	patch := n.read(filepath.Join(n.dir, kubeadm.PatchesDir, kubeadm.PodPatch))
	for _, want := range []string{"image: lockstep:1.1.0\n", "--bundle=/etc/lockstep/bundles/1.1.0\n", "--expire-dead-nodes=10m\n", "path: " + n.dir + ","} {
		if !strings.Contains(patch, want) {
			t.Errorf("want %q in:\n%s", want, patch)
		}
	}
	if !strings.Contains(out, "\n  . "+n.dir+"/env\n  sidecar turn -- kubeadm upgrade node --etcd-upgrade=false --certificate-renewal=false --patches "+n.dir+"/patches ") {
		t.Errorf("got\n%s", out)
	}
	n.trust(server)
	code, out, stderr := n.call("--check")
	if code != console.ExitFailed || !strings.Contains(out, ": PatchNotApplied: ") || stderr != "sidecar: node cp-1: 1 problem\n" {
		t.Errorf("got %d, %s%s", code, out, stderr)
	}
	n.runKubeadm(server.URL)
	n.ok("--check")

	// Flags replace only flags of the same name, and kube-apiserver follows them.
	n.ok("--", "--kubernetes-service")
	n.trust(server)
	n.runKubeadm(server.URL)
	if out := n.ok("--check"); out != "node cp-1: no problem found\n" {
		t.Errorf("got\n%s", out)
	}
	manifest := n.read(n.kubernetes + "/manifests/kube-apiserver.yaml")
	for _, want := range []string{"--endpoint-reconciler-type=none", "--kubernetes-service\n", "--expire-dead-nodes=10m\n"} {
		if !strings.Contains(manifest, want) {
			t.Errorf("want %q in:\n%s", want, manifest)
		}
	}
	n.ok("--", "--kubernetes-service=false")
	n.trust(server)
	n.runKubeadm(server.URL)
	n.ok("--check")
	if manifest := n.read(n.kubernetes + "/manifests/kube-apiserver.yaml"); strings.Contains(manifest, "endpoint-reconciler") {
		t.Errorf("kube-apiserver leaves the Service to the sidecar with:\n%s", manifest)
	}
}

// The way back begins with a command for the cluster. The way up, and the same release, do not.
func TestKubeadm_back(t *testing.T) {
	n := newKubeadmNode(t)
	server := n.api()
	n.makeCA()
	n.ok("--image=lockstep:1", "--bundle", writeRelease(t, "1.1.0", ""), "--apiserver-url", server.URL)
	n.runKubeadm(server.URL)
	for to, back := range map[string]bool{"1.0.9": true, "1.1.0": false, "1.2.0": false} {
		out := n.ok("--image=lockstep:2", "--bundle", writeRelease(t, to, ""))
		want := "/env\n  sidecar rollback begin --to " + to + "    # once for the cluster, before the first node\n  sidecar turn -- "
		if strings.Contains(out, want) != back || strings.Contains(out, "rollback") != back {
			t.Errorf("%s: want %t, %q in:\n%s", to, back, want, out)
		}
	}
	if out := n.ok("--bundle=builtin"); strings.Contains(out, "rollback") {
		t.Errorf("the built-in bundle has no release that is known here, got:\n%s", out)
	}
}

// A bundle of the same release replaces the one before.
func TestKubeadm_bundleReplaced(t *testing.T) {
	n := newKubeadmNode(t)
	for _, more := range []string{"", "description: other\n", ""} {
		n.ok("--image=lockstep", "--bundle", writeRelease(t, "1.0.0", more), "--apiserver-url=https://10.0.0.1:6443")
		if got := n.read(filepath.Join(n.dir, "bundles/1.0.0/sub/priority.yaml")); !strings.HasSuffix(got, "value: 1\n"+more) {
			t.Errorf("got %s", got)
		}
	}
	entries, err := os.ReadDir(filepath.Join(n.dir, "bundles"))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v", entries, err)
	}
}

func TestKubeadm_invalid(t *testing.T) {
	bundle := writeRelease(t, "1.0", "")
	for _, test := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no image", []string{"--bundle=builtin"}, console.ExitUsage, "--image: required at the first call"},
		{"neither image nor bundle", nil, console.ExitUsage, "from a release or made with the Dockerfile of Lockstep\nsidecar: --bundle: required at the first call"},
		{"an image with a space", []string{"--image=a b"}, console.ExitUsage, `--image: "a b"`},
		{"an argument", []string{"--image=a", "init"}, console.ExitUsage, `unexpected argument "init"`},
		{"no flag after --", []string{"--image=a", "--", "listen"}, console.ExitUsage, `"listen" after --: must be a flag of sidecar run`},
		{"an unknown flag after --", []string{"--image=a", "--", "--lisen=x"}, console.ExitUsage, "the flags of sidecar run: unknown flag: --lisen; did you mean --listen?"},
		{"a wrong flag after --", []string{"--image=a", "--", "--listen=0.0.0.0:8086"}, console.ExitUsage, "--insecure-listen"},
		{"a load balancer by name", []string{"--image=a", "--apiserver-url=lb:6443"}, console.ExitUsage, "must be https://ADDRESS:PORT"},
		{"a relative directory", []string{"--image=a", "--dir=x"}, console.ExitUsage, `--dir: "x": must be an absolute path`},
		{"no bundle", []string{"--image=a"}, console.ExitUsage, "--bundle: required at the first call: the directory of the bundle, or builtin"},
		{"a bundle that is wrong", []string{"--image=a", "--bundle", bundle}, console.ExitFailed, "1 problem"},
		{"no bundle there", []string{"--image=a", "--bundle", "/nowhere"}, console.ExitFailed, "no such file"},
		{"--check with an image", []string{"--check", "--image=a"}, console.ExitUsage, "--check writes nothing"},
		{"another output", []string{"--check", "-o", "yaml"}, console.ExitUsage, "must be one of table, json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newKubeadmNode(t)
			code, _, stderr := n.call(test.args...)
			if code != test.code || !strings.Contains(stderr, test.want) {
				t.Errorf("got %d: %s, want %d: %s", code, stderr, test.code, test.want)
			}
			if _, err := os.Stat(filepath.Join(n.dir, kubeadm.PatchesDir)); err == nil {
				t.Error("something was written")
			}
		})
	}
}

// TestKubeadm_files changes files, and brings some of its own: they are left alone, and named,
// unless --force is given.
func TestKubeadm_files(t *testing.T) {
	n := newKubeadmNode(t)
	const roles, ofBundle = "cluster/rbac.yaml", "cluster/bundle-rights.yaml"
	own := filepath.Join(n.dir, ofBundle)
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := []string{"--image=lockstep", "--bundle", writeRelease(t, "1.0.0", ""), "--apiserver-url=https://10.0.0.1:6443"}
	if out := n.ok(first...); !strings.Contains(out, "left alone "+own+": sidecar kubeadm did not write it; --force overwrites it\n") || n.read(own) != "mine\n" {
		t.Errorf("got\n%s%s", out, n.read(own))
	}
	if out := n.ok(first...); strings.Contains(out, "wrote "+filepath.Dir(own)) ||
		!strings.Contains(out, "the rights in "+own+" are not enough for the bundle; missing:\n  list, watch, create priorityclasses.scheduling.k8s.io\n  get, patch, delete priorityclasses.scheduling.k8s.io x\nadd them, or write the whole file again: sidecar kubeadm --dir="+n.dir) {
		t.Errorf("got\n%s", out)
	}
	if out := n.ok("--force"); !strings.Contains(out, "wrote "+filepath.Dir(own)+": the rights of the sidecars") || strings.Contains(out, "not enough") {
		t.Errorf("got\n%s", out)
	}
	if text := n.read(own); !strings.Contains(text, "for the bundle test 1.0.0 (1 object)") || !strings.Contains(text, "resources: [priorityclasses], resourceNames: [x]") {
		t.Errorf("got\n%s", text)
	}
	if text := n.read(filepath.Join(n.dir, "cluster/kustomization.yaml")); !strings.Contains(text, "resources: [rbac.yaml, bundle-rights.yaml, readers.yaml, flowschema.yaml]") {
		t.Errorf("got\n%s", text)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", "cd "+n.dir+" && sha256sum -c written.sha256").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}

	// Changed lines stay; the rest follows the next release.
	n.replaceIn(filepath.Join(n.dir, roles), "# Each node", "# My own line\n# Each node")
	out := n.ok("--bundle", writeRelease(t, "1.1.0", "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits, namespace: default}\n"))
	if !strings.Contains(out, "left alone "+filepath.Join(n.dir, roles)+": it was changed since sidecar kubeadm wrote it; --force overwrites it\n") || strings.Count(out, "left alone") != 1 {
		t.Errorf("got\n%s", out)
	}
	if !strings.Contains(n.read(filepath.Join(n.dir, roles)), "# My own line") || !strings.Contains(n.read(own), "resources: [configmaps], resourceNames: [limits]") {
		t.Errorf("got\n%s\n%s", n.read(filepath.Join(n.dir, roles)), n.read(own))
	}

	// A patch that was changed: kubeadm would start other flags than this call asks for.
	patch := filepath.Join(n.dir, kubeadm.PatchesDir, kubeadm.PodPatch)
	n.replaceIn(patch, "cpu: 50m", "cpu: 80m")
	code, _, stderr := n.call("--image=lockstep:1.2.0", "--bundle", writeRelease(t, "1.2.0", ""))
	if code != console.ExitFailed || !strings.Contains(stderr, patch+": it was changed since sidecar kubeadm wrote it: add --force to overwrite it.") || strings.Contains(n.read(own), "1.2.0") {
		t.Errorf("got %d: %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(n.dir, "bundles/1.2.0")); err == nil {
		t.Error("copied the bundle")
	}
	if out := n.ok(); !strings.Contains(out, "left alone "+patch) || !strings.Contains(n.read(patch), "cpu: 80m") {
		t.Errorf("got\n%s", out)
	}
	if n.ok("--force", "--image=lockstep:1.2.0"); !strings.Contains(n.read(patch), "cpu: 50m") || !strings.Contains(n.read(patch), "image: lockstep:1.2.0") {
		t.Errorf("got\n%s", n.read(patch))
	}
}

// A kubeconfig that people brought is kept beside the one with the sidecar's identity.
func TestKubeadm_kubeconfigKept(t *testing.T) {
	n := newKubeadmNode(t)
	n.makeCA()
	file := filepath.Join(n.dir, kubeadm.KubeconfigFile)
	n.ok("--image=lockstep", "--bundle=builtin", "--apiserver-url=https://10.0.0.1:6443")
	if out := n.ok(); strings.Contains(out, ".old") {
		t.Errorf("got\n%s", out)
	}
	n.replaceIn(file, "server:", "# mine\n    server:")
	if out := n.ok(); !strings.Contains(out, "kept the kubeconfig as "+file+".old: it was changed since") || !strings.Contains(n.read(file+".old"), "# mine") || strings.Contains(n.read(file), "# mine") {
		t.Errorf("got\n%s", out)
	}
}

// A file that others left on the node gets an error that names it.
func TestKubeadm_damaged(t *testing.T) {
	n := newKubeadmNode(t)
	n.ok("--image=lockstep", "--bundle=builtin", "--apiserver-url=https://10.0.0.1:6443")
	n.write("pki/ca.crt", []byte("garbage"))
	code, _, stderr := n.call()
	if code != console.ExitFailed || !strings.Contains(stderr, "ca.key is missing") || !strings.Contains(stderr, "kubeadm kubeconfig user --client-name lockstep:cp-1 --org lockstep:sidecars") {
		t.Errorf("got %d: %s", code, stderr)
	}
	n.write("pki/ca.key", []byte("garbage"))
	if code, _, stderr = n.call(); code != console.ExitFailed || !strings.Contains(stderr, "failed to find any PEM data in certificate input") {
		t.Errorf("got %d: %s", code, stderr)
	}
	n.write("manifests/kube-apiserver.yaml", []byte("- a"))
	if code, _, stderr = n.call(); code != console.ExitFailed || !strings.Contains(stderr, "manifests/kube-apiserver.yaml: not the manifest of a pod") {
		t.Errorf("got %d: %s", code, stderr)
	}
	patch := filepath.Join(n.dir, kubeadm.PatchesDir, kubeadm.PodPatch)
	if err := os.WriteFile(patch, []byte("spec: {}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr = n.call(); code != console.ExitFailed || !strings.Contains(stderr, patch+": has no container lockstep; correct the file, or remove it") {
		t.Errorf("got %d: %s", code, stderr)
	}
}

// open lets every user change a file.
func (n *kubeadmNode) open(path string) {
	n.Helper()
	if err := os.Chmod(path, 0o666); err != nil {
		n.Fatal(err)
	}
}

const oneService = `apiVersion: lockstep.dev/v1
kind: Service
metadata: {name: a}
role: kubernetes_controller
systemdUnit: {name: a.service}
`

// TestKubeadm_check damages the files of a node, and asks for the facts that the check gathers itself.
func TestKubeadm_check(t *testing.T) {
	for _, test := range []struct {
		name   string
		damage func(*kubeadmNode)
		want   []string // in the output
	}{
		{"no manifest", func(n *kubeadmNode) { n.remove(n.kubernetes + "/manifests/kube-apiserver.yaml") }, []string{"ManifestUnreadable"}},
		{"no patches", func(n *kubeadmNode) { n.remove(n.dir + "/patches") }, []string{kubeadm.PodPatch + ": PatchUnreadable", kubeadm.FlagsPatch + ": PatchUnreadable"}},
		{"no bundle", func(n *kubeadmNode) { n.remove(n.dir + "/bundles/1.0.0") }, []string{"/bundles/1.0.0: BundleInvalid: open bundle"}},
		{"no key for etcd", func(n *kubeadmNode) { n.remove(n.kubernetes + "/pki/apiserver-etcd-client.key") }, []string{
			"apiserver-etcd-client.key: FileUnreadable: the key of the client certificate for etcd", "type: kubeadm certs renew apiserver-etcd-client",
		}},
		{"every user can change the settings", func(n *kubeadmNode) {
			if err := os.Chmod(filepath.Join(n.dir, kubeadm.EnvFile), 0o666); err != nil {
				n.Fatal(err)
			}
		}, []string{"/env: FileUntrusted: it can be changed by every user (mode 0666)", "type: chmod o-w "}},
		{"every user can change a file of the bundle", func(n *kubeadmNode) {
			if err := os.Chmod(filepath.Join(n.dir, "bundles", "1.0.0", "bundle.yaml"), 0o666); err != nil {
				n.Fatal(err)
			}
		}, []string{"/bundles/1.0.0/bundle.yaml: FileUntrusted: it can be changed by every user (mode 0666)", "type: chmod o-w "}},
		{"every user can change the kubeconfig and what the administrator applies", func(n *kubeadmNode) {
			n.open(n.dir + "/kubeconfig")
			n.open(n.dir + "/cluster/rbac.yaml")
		}, []string{"/kubeconfig: FileUntrusted: it can be changed by every user (mode 0666)", "/cluster/rbac.yaml: FileUntrusted: it can be changed by"}},
		{"every user can change the file of a service", func(n *kubeadmNode) {
			n.replaceIn(n.kubernetes+"/manifests/kube-apiserver.yaml", "--listen=:8086\n",
				"--listen=:8086\n    - --services=/etc/lockstep/services\n    - --data-dir=/var/lib/lockstep\n")
			dir := n.dir + "/services"
			if err := os.Mkdir(dir, 0o755); err != nil {
				n.Fatal(err)
			}
			for _, name := range []string{"a.yaml", "README", ".a.yaml"} {
				if err := os.WriteFile(dir+"/"+name, []byte(oneService), 0o600); err != nil {
					n.Fatal(err)
				}
				n.open(dir + "/" + name)
			}
		}, []string{"PatchNotApplied", "/services/a.yaml: FileUntrusted: it can be changed by every user (mode 0666)"}},
		{"the CA of etcd is garbage", func(n *kubeadmNode) { n.write("pki/etcd/ca.crt", []byte("x")) }, []string{"etcd/ca.crt: FileUnreadable: the CA of the etcd servers: no PEM certificate"}},
		{"no kubeconfig", func(n *kubeadmNode) { n.remove(n.dir + "/kubeconfig") }, []string{"KubeconfigUnreadable", "type: sidecar kubeadm --dir="}},
		{"the kubeconfig is empty", func(n *kubeadmNode) { n.replaceIn(n.dir+"/kubeconfig", "server:", "x:") }, []string{"KubeconfigUnreadable"}},
		{"the key for etcd is another", func(n *kubeadmNode) { n.write("pki/apiserver-etcd-client.key", otherKey(n)) }, []string{
			"apiserver-etcd-client.key: FileUnreadable: the key of the client certificate for etcd: tls: private key does not match public key",
		}},
		{"flags with files that do not exist", func(n *kubeadmNode) {
			for from, to := range map[string]string{
				"/etc/lockstep/serving.crt": "/etc/lockstep/tls.crt", "/etc/lockstep/serving.key": "/run/tls.key", "/etc/lockstep/ca.crt": "/etc/lockstep/clients.crt",
				"--listen=:8086\n": "--listen=127.0.0.1:8086\n    - --services=/etc/lockstep/services\n    - --data-dir=/var/lib/lockstep\n", "scheme: HTTPS": "scheme: HTTP",
			} {
				n.replaceIn(n.kubernetes+"/manifests/kube-apiserver.yaml", from, to)
			}
		}, []string{
			"PatchNotApplied", "ProbeMissing: the startup", "ProbeMissing: the readiness", "ProbeMissing: the liveness",
			"/tls.crt: FileUnreadable: the serving certificate of the sidecar: ", "/run/tls.key: FileUnreadable: the key of the serving certificate of the sidecar: it is not in a volume of this node",
			"/services: FileUnreadable: the directory of services: ", "/clients.crt: FileUnreadable: the CA of the client certificates that the sidecar accepts: ",
		}},
		{"a kubeconfig of the container's own", func(n *kubeadmNode) {
			n.replaceIn(n.kubernetes+"/manifests/kube-apiserver.yaml", "--kubeconfig=/etc/lockstep/kubeconfig", "--kubeconfig=/run/kubeconfig")
		}, []string{"PatchNotApplied", "/run/kubeconfig: KubeconfigUnreadable: it is not in a volume of this node"}},
		{"the manifest has another flag", func(n *kubeadmNode) {
			n.replaceIn(n.kubernetes+"/manifests/kube-apiserver.yaml", "--apiserver-readyz", "--apiserver-redyz")
		}, []string{
			"PatchNotApplied", "ArgumentsInvalid: the arguments of the container lockstep: unknown flag: --apiserver-redyz",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newKubeadmNode(t)
			server := n.api()
			n.makeCA()
			n.ok("--image=lockstep", "--bundle", writeRelease(t, "1.0.0", ""), "--apiserver-url", server.URL)
			n.runKubeadm(server.URL)
			n.trust(server)
			n.ok("--check")
			test.damage(n)
			code, out, _ := n.call("--check")
			if code != console.ExitFailed {
				t.Errorf("got exit code %d", code)
			}
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("want %q in:\n%s", want, out)
				}
			}
			if findings := strings.Count(out, "  type: "); findings > len(test.want) {
				t.Errorf("got %d findings:\n%s", findings, out)
			}
		})
	}
}

func TestKubeadm_checkRights(t *testing.T) {
	n := newKubeadmNode(t)
	server := n.api("escalate clusterroles", "get configmaps lockstep", "update configmaps lockstep", "patch priorityclasses platform-critical")
	n.makeCA()
	n.ok("--image=lockstep", "--bundle=builtin", "--apiserver-url", server.URL) // the built-in bundle
	n.runKubeadm(server.URL)
	n.trust(server)
	code, out, _ := n.call("--check", "-o", "json")
	var got kubeadmnode.Report
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != console.ExitFailed || len(got.Findings) != 1 {
		t.Fatalf("got %d, %v: %s", code, err, out)
	}
	found := got.Findings[0]
	for _, missing := range []string{
		"may not: get, update configmaps lockstep in kube-system; ", "patch priorityclasses.scheduling.k8s.io platform-critical", "escalate clusterroles.rbac.authorization.k8s.io",
	} {
		if !strings.Contains(found.Message, missing) {
			t.Errorf("got %s, want %s", found.Message, missing)
		}
	}
	if found.Reason != kubeadm.RightsMissing || found.Where != "lockstep:cp-1" || !strings.HasSuffix(found.Remedy, "apply -k "+n.dir+"/cluster") ||
		!strings.HasPrefix(found.Remedy, "kubectl --kubeconfig "+n.kubernetes+"/admin.conf ") {
		t.Errorf("got %+v", found)
	}
	if _, out, _ := n.call("--check"); !strings.Contains(out, "; the user may not:\n    get, update configmaps lockstep in kube-system\n    ") {
		t.Errorf("the rights are not one in a line:\n%s", out)
	}
	server.Close()
	if code, out, _ := n.call("--check"); code != console.ExitFailed || !strings.Contains(out, "APIUnreachable: the rights of the sidecar are unknown") {
		t.Errorf("got %d: %s", code, out)
	}
}

// otherKey returns a key that belongs to no certificate of the node.
func otherKey(n *kubeadmNode) []byte {
	n.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		n.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		n.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func (n *kubeadmNode) remove(path string) {
	n.Helper()
	if err := os.RemoveAll(path); err != nil {
		n.Fatal(err)
	}
}

func (n *kubeadmNode) replaceIn(path, from, to string) {
	n.Helper()
	text := n.read(path)
	if !strings.Contains(text, from) {
		n.Fatalf("%s has no %q", path, from)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll([]byte(text), []byte(from), []byte(to)), fs.FileMode(0o600)); err != nil {
		n.Fatal(err)
	}
}
