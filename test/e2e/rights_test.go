package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/rights"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// auditPolicy notes each request once, without its body.
const auditPolicy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived, ResponseStarted]\nrules: [{level: Metadata}]\n"

// A sidecar needs exactly the rights in the files of sidecar kubeadm, which sidecar bundle rights
// prints too, for a bundle of eleven kinds with a CRD of its own: it installs, upgrades, recreates
// and prunes its objects, and rolls them back. kube-apiserver refuses nothing, and each right on each
// resource is used. sidecar kubeadm --check reports them as missing before. Meanwhile the sidecar
// writes Events.
func TestPrintedRights(t *testing.T) {
	t.Parallel()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar", "kubectl")
	dir := t.TempDir()
	audit := filepath.Join(dir, "audit.log")
	b := &broken{T: t, c: c, dir: dir, sidecars: map[string]*cluster.Sidecar{}}
	b.write(filepath.Join(dir, "audit.yaml"), auditPolicy)
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one", Args: []string{
		"--audit-policy-file=" + filepath.Join(dir, "audit.yaml"), "--audit-log-path=" + audit, "--runtime-config=api/all=true",
	}})
	b.must(err)
	b.api = api
	b.knowsKinds()
	node := b.kubeadmNode()

	first, second := b.platform("1.0.0", "a", "b"), b.platform("1.1.0", "a", "c")
	node.prepare(first, "create configmaps in kube-system", "create, patch events.events.k8s.io in default", "create, patch events.events.k8s.io in kube-system", "list, watch, create, get widgets.acme.example", "get, patch, delete widgets.acme.example a, b",
		"list, watch, create priorityclasses.scheduling.k8s.io", "list, watch, create, escalate clusterroles.rbac.authorization.k8s.io")
	printed := node.grants()
	node.run("1.0.0")
	cluster.Await(t, "the Service kubernetes to be written", statusHas(b.sidecars["cp-1"], `"reason": "Published",`))
	b.watches()
	b.showsEvents()
	b.kubectl("", "annotate", "-n", "kube-system", "configmap", "lockstep", "applyset.kubernetes.io/tooling-")
	b.awaitOutput("the parent to be repaired", "applyset.kubernetes.io/tooling", "get", "-n", "kube-system", "configmap", "lockstep", "-o", "yaml")

	node.prepare(second, "patch, delete widgets.acme.example c")
	b.must(b.sidecars["cp-1"].Stop())
	next := node.grants()
	node.run("1.1.0")
	b.awaitOutput("the dropped objects to be deleted", "widgets.acme.example \"b\" not found", "get", "widgets.acme.example", "-n", "acme", "b")
	b.awaitOutput("the class to be recreated", "110", "get", "priorityclass", "a", "-o", "jsonpath={.value}")

	b.sidecarOutput("rollback", "begin", "--to=1.0.0", "--etcd-servers="+strings.Join(c.Endpoints(), ","))
	node.prepare(first)
	b.must(b.sidecars["cp-1"].Stop())
	last := node.grants()
	node.run("1.0.0")
	b.awaitOutput("the class to be recreated", "100", "get", "priorityclass", "a", "-o", "jsonpath={.value}")
	b.used(audit, printed, next)

	// The rollback is over: the command in the file takes the other rights away.
	_, remove, _ := strings.Cut(last, "#   kubectl delete ")
	remove, _, _ = strings.Cut(remove, "\n")
	before, selector, _ := strings.Cut(remove, " -l ")
	b.kubectl("", append(append([]string{"delete"}, strings.Fields(before)...), "-l", strings.Trim(selector, "'"))...)
	if out, err := b.tryKubectl("", "get", "clusterroles,clusterrolebindings,roles,rolebindings", "-A", "-l", rights.Label, "-o", "name"); err != nil || strings.Count(out, "\n") != 4 {
		t.Errorf("got the roles and bindings %s, %v, want those of one bundle", out, err)
	}
	b.kubectl("", "delete", "-n", "acme", "widget", "a")
	b.awaitOutput("the rights that are left to be enough", "size: 10", "get", "-n", "acme", "widget", "a", "-o", "yaml")
	for _, args := range [][]string{
		{"get", "configmap/extension-apiserver-authentication"}, {"update", "configmap/coredns"}, {"delete", "secret/other"}, {"create", "pods"},
		{"patch", "clusterrole/cluster-admin"}, {"bind", "clusterrole/cluster-admin"}, {"delete", "storageclass/c"},
	} {
		out, err := b.tryKubectl("", append([]string{"auth", "can-i", "-n", "kube-system", "--as=" + kubeadm.User("cp-1"), "--as-group=" + kubeadm.Group}, args...)...)
		if err == nil || !strings.Contains(out, "no\n") {
			t.Errorf("%v: got %s", args, out)
		}
	}
	b.kubectl("", "wait", "flowschema/lockstep", "--for=condition=Dangling=false", "--timeout=20s")
}

// platform writes a bundle with two objects of each kind.
func (b *broken) platform(release, first, second string) string {
	b.Helper()
	dir := filepath.Join(b.dir, release)
	b.must(os.MkdirAll(dir, 0o700))
	b.write(filepath.Join(dir, "bundle.yaml"), "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: acme}\nrelease: "+release+
		"\nminApiserverRelease: "+release+"\nminReconcilerRelease: 0.0.0\n")
	size := "10"
	if release != "1.0.0" {
		size = "11"
	}
	texts := []string{strings.ReplaceAll(platformOnce, "SIZE", size)}
	for _, name := range []string{first, second} {
		texts = append(texts, strings.NewReplacer("NAME", name, "SIZE", size).Replace(platformTwice))
	}
	b.write(filepath.Join(dir, "objects.yaml"), strings.Join(texts, "---\n"))
	return dir
}

const platformOnce = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.acme.example, annotations: {size: "SIZE"}}
spec:
  group: acme.example
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: Namespace
metadata: {name: acme, annotations: {size: "SIZE"}}
`

const platformTwice = `apiVersion: acme.example/v1
kind: Widget
metadata: {name: NAME, namespace: acme}
spec: {size: SIZE}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME, namespace: acme}
data: {size: "SIZE"}
---
apiVersion: v1
kind: Secret
metadata: {name: NAME, namespace: kube-system}
stringData: {size: "SIZE"}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: NAME, namespace: kube-system, annotations: {size: "SIZE"}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME}
rules: [{apiGroups: [""], resources: [nodes], resourceNames: ["SIZE"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAME}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "SIZE"}]
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: NAME}
value: SIZE0
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NAME}
provisioner: "sSIZE.acme.example"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  paramKind: {apiVersion: acme.example/v1, kind: Widget}
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}
  validations: [{expression: "SIZE > 1"}]
`

// sidecarOutput runs a command of the sidecar's program.
func (b *broken) sidecarOutput(args ...string) string {
	b.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(b.Context(), filepath.Join(cluster.Assets(b.T, "sidecar"), "sidecar"), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		b.Fatalf("sidecar %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// watches waits until all kinds are watched.
func (b *broken) watches() {
	b.Helper()
	cluster.Await(b.T, "all kinds to be watched", statusHas(b.sidecars["cp-1"], `"watching": true,`))
	cluster.Await(b.T, "no problem with the watches", statusHas(b.sidecars["cp-1"], `"problem": "",`))
}

// awaitOutput waits until kubectl prints a text.
func (b *broken) awaitOutput(what, want string, args ...string) {
	b.Helper()
	cluster.Await(b.T, what, func(context.Context) error {
		out, err := b.tryKubectl("", args...)
		if !strings.Contains(out, want) {
			return fmt.Errorf("got %s, %w", out, err)
		}
		return nil
	})
}

// audited is a request in an audit log.
type audited struct {
	User      struct{ Username string }
	Verb      string
	ObjectRef struct{ Resource, APIGroup, Namespace, Name string }
	Status    struct{ Code int } `json:"responseStatus"`
	Notes     map[string]string  `json:"annotations"`
}

// used requires that kube-apiserver refused no request of the sidecar, and that the sidecar
// used each verb on each resource that outputs of bundle rights grant.
func (b *broken) used(audit string, printed ...string) {
	b.Helper()
	file, err := os.Open(audit)
	b.must(err)
	defer func() { b.must(file.Close()) }()
	done := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var r audited
		b.must(json.Unmarshal(lines.Bytes(), &r))
		if r.User.Username != kubeadm.User("cp-1") {
			continue
		}
		if r.Notes["authorization.k8s.io/decision"] != "allow" || r.Status.Code == 403 {
			b.Errorf("kube-apiserver refused: %s", lines.Text())
		}
		done[r.Verb+" "+r.ObjectRef.Resource+"."+r.ObjectRef.APIGroup] = true
	}
	b.must(lines.Err())
	for granted := range maps.Keys(b.granted(printed)) {
		if verb, _, _ := strings.Cut(granted, " "); !done[granted] && verb != "escalate" && verb != "bind" {
			b.Errorf("granted and not used: %s", granted)
		}
	}
}

// granted returns the verbs on resources that all bundles' roles in outputs grant.
func (b *broken) granted(printed []string) map[string]bool {
	b.Helper()
	out := map[string]bool{}
	for _, text := range printed {
		for document := range strings.SplitSeq(text, "\n---\n") {
			if !strings.Contains(document, rights.Label) {
				continue
			}
			var written struct {
				Rules []struct{ APIGroups, Resources, Verbs []string }
			}
			b.must(yaml.Unmarshal([]byte(document), &written))
			for _, rule := range written.Rules {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						out[verb+" "+resource+"."+rule.APIGroups[0]] = true
					}
				}
			}
		}
	}
	if len(out) < 50 {
		b.Errorf("got the grants %v", out)
	}
	return out
}

// knowsKinds requires that the rights for each built-in kind of kube-apiserver are for the
// resource that it serves.
func (b *broken) knowsKinds() {
	b.Helper()
	client, err := kube.New(b.api.Config(), "test")
	b.must(err)
	b.Cleanup(client.CloseIdle)
	versions, err := client.GroupVersions(b.Context())
	b.must(err)
	known := 0
	for _, gv := range versions {
		served, err := client.Resources(b.Context(), gv)
		b.must(err)
		for _, resource := range served {
			if !resource.Listable {
				continue
			}
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			obj.SetGroupVersionKind(resource.GroupVersionKind)
			obj.SetName("x")
			got, err := rights.Of(&bundle.Bundle{Name: "x", Objects: []*unstructured.Unstructured{obj}}, nil)
			b.must(err)
			if of := got.Required()[0]; of.Resource != resource.Name || len(got.Guessed) > 0 {
				b.Errorf("%s: got the rights for %s (a guess: %v), want %s", resource.GroupVersionKind, of.Resource, got.Guessed, resource.Name)
			}
			known++
		}
	}
	if known < 60 {
		b.Errorf("asked for %d kinds", known)
	}
}
