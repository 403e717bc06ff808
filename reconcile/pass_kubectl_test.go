package reconcile_test

import (
	"crypto/sha256"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// kubectl runs the real one, with ApplySets, and returns what it says.
func (r *rig) kubectl(args ...string) (string, error) {
	r.t.Helper()
	home := r.t.TempDir()
	cmd := exec.CommandContext(r.t.Context(), filepath.Join(cluster.Assets(r.t, "kube-apiserver"), "kubectl"), append([]string{
		"--kubeconfig=" + shared.Get(r.t).Kubeconfig(), "--cache-dir=" + home, "--namespace=" + r.ns,
	}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECTL_APPLYSET=true", "HOME="+home)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *rig) mustKubectl(args ...string) string {
	r.t.Helper()
	out, err := r.kubectl(args...)
	if err != nil {
		r.t.Fatalf("kubectl %q: %v: %s", args, err, out)
	}
	return out
}

func newKubectlRig(t *testing.T) *rig {
	t.Helper()
	if _, err := os.Stat(filepath.Join(cluster.Assets(t, "kube-apiserver"), "kubectl")); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v; `make bin/kubectl` builds it", err)
	}
	return newRig(t)
}

// applySet are the words that have kubectl apply one ConfigMap and prune the rest
// of the set with a parent.
func (r *rig) applySet(parent, name string) []string {
	r.t.Helper()
	dir := r.t.TempDir()
	r.writeFile(dir, "a.yaml", strings.ReplaceAll(configMap(name, "x: one"), "NS", r.ns))
	return []string{"apply", "--server-side", "--force-conflicts", "--prune", "--applyset=configmap/" + parent, "--filename=" + dir}
}

// TestApplySet has the real kubectl look at a set: it has to find the members,
// keep its hands off what another tool manages, and understand every word of the
// parent (KEP-3659).
func TestApplySet(t *testing.T) {
	r := newKubectlRig(t)
	r.use("1.0.0", moreNamespace, configMap("a", "x: one"), configMap("b", "x: one"),
		strings.Replace(configMap("c", "x: one"), "namespace: NS", "namespace: NS-more", 1),
		"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-x}\nvalue: 1\n")
	r.mustComplete()
	id := r.get(configMaps, r.ns, "set").GetLabels()["applyset.kubernetes.io/id"]
	apply := r.applySet("set", "a")

	t.Run("the ID is the hash that the KEP asks for", func(t *testing.T) {
		sum := sha256.Sum256([]byte("set." + r.ns + ".ConfigMap."))
		if want := "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"; id != want {
			t.Errorf("got %q, want %q", id, want)
		}
	})
	t.Run("the label finds the members", func(t *testing.T) {
		out := r.mustKubectl("get", "configmaps,priorityclasses,validatingadmissionpolicies,namespaces", "--all-namespaces",
			"--selector=applyset.kubernetes.io/part-of="+id, "--output=name")
		got := strings.Fields(out)
		slices.Sort(got)
		want := []string{
			"configmap/a", "configmap/b", "configmap/c", "namespace/" + r.ns + "-more", "priorityclass.scheduling.k8s.io/" + r.ns + "-x",
			"validatingadmissionpolicy.admissionregistration.k8s.io/set-fence." + r.ns,
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if out := r.mustKubectl("get", "configmaps", "--selector=applyset.kubernetes.io/id", "--output=name"); strings.TrimSpace(out) != "configmap/set" {
			t.Errorf("got %q, want the parent", out)
		}
	})
	t.Run("it refuses to prune a set that another tool manages", func(t *testing.T) {
		out, err := r.kubectl(apply...)
		if want := `ApplySet parent object "configmaps./set" already exists and is managed by tooling "lockstep" instead of "kubectl"`; err == nil || !strings.Contains(out, want) {
			t.Errorf("got %v: %s, want %q", err, out, want)
		}
		r.get(configMaps, r.ns, "b")
	})
	t.Run("it refuses a parent whose ID is another's", func(t *testing.T) {
		r.asTooling("kubectl/v1.36.3")
		r.patch(configMaps, r.ns, "set", `{"metadata":{"labels":{"applyset.kubernetes.io/id":"applyset-x-v1"}}}`)
		if out, err := r.kubectl(apply...); err == nil || !strings.Contains(out, "incorrect value for label") || !strings.Contains(out, "want: "+id) {
			t.Errorf("got %v: %s, want it to compute the ID %s", err, out, id)
		}
		r.patch(configMaps, r.ns, "set", `{"metadata":{"labels":{"applyset.kubernetes.io/id":"`+id+`"}}}`)
	})
	t.Run("with its own name on it, it would prune just what is missing, in all kinds and namespaces", func(t *testing.T) {
		r.asTooling("kubectl/v1.36.3")
		out := r.mustKubectl(append(slices.Clone(apply), "--dry-run=server")...)
		for _, want := range []string{
			"configmap/a serverside-applied (server dry run)", "configmap/b pruned (server dry run)", "configmap/c pruned (server dry run)",
			"priorityclass.scheduling.k8s.io/" + r.ns + "-x pruned (server dry run)", "namespace/" + r.ns + "-more pruned (server dry run)",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("got %s, want %q", out, want)
			}
		}
	})
	t.Run("a pass writes our name again", func(t *testing.T) {
		r.asTooling("kubectl/v1.36.3")
		r.mustComplete()
		if got := r.get(configMaps, r.ns, "set").GetAnnotations()["applyset.kubernetes.io/tooling"]; !strings.HasPrefix(got, "lockstep/") {
			t.Errorf("got tooling %q", got)
		}
		if out, err := r.kubectl(apply...); err == nil {
			t.Errorf("got no refusal: %s", out)
		}
	})
}

// TestApplySetPruned has kubectl really take over a set, as a user may by mistake
// who writes its name on the parent: it prunes just the members, of all recorded
// kinds. Then a pass makes all as it was.
func TestApplySetPruned(t *testing.T) {
	r := newKubectlRig(t)
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"), priorityClass(r.ns+"-x", 1))
	r.mustComplete()
	id := r.get(configMaps, r.ns, "set").GetLabels()["applyset.kubernetes.io/id"]
	kinds := r.get(configMaps, r.ns, "set").GetAnnotations()["applyset.kubernetes.io/contains-group-kinds"]
	r.create(configMaps, r.ns, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"theirs"}}`)

	if out, err := r.kubectl(r.applySet("set", "a")...); err == nil {
		t.Fatalf("got %s, want a refusal", out)
	}
	for _, name := range []string{"a", "b"} {
		r.get(configMaps, r.ns, name)
	}
	r.get(priorityClasses, "", r.ns+"-x")

	r.asTooling("kubectl/v1.36.3")
	r.mustKubectl(r.applySet("set", "a")...)
	r.get(configMaps, r.ns, "a")
	r.get(configMaps, r.ns, "theirs")
	r.wantGone(configMaps, r.ns, "b")
	r.wantGone(priorityClasses, "", r.ns+"-x")
	r.wantGone(policies, "", "set-fence."+r.ns)
	parent := r.get(configMaps, r.ns, "set")
	if got := parent.GetAnnotations()["applyset.kubernetes.io/contains-group-kinds"]; got != "ConfigMap" {
		t.Errorf("got kinds %q, want what kubectl left", got)
	}
	if mark := r.survey(); !mark.FirstDone || len(mark.Entries) != 1 || mark.Entries[0] != r.content {
		t.Errorf("got mark %+v, want %v alone", mark, r.content)
	}

	r.mustComplete()
	r.get(configMaps, r.ns, "b")
	r.get(priorityClasses, "", r.ns+"-x")
	r.get(policies, "", "set-fence."+r.ns)
	parent = r.get(configMaps, r.ns, "set")
	if got := parent.GetAnnotations(); got["applyset.kubernetes.io/contains-group-kinds"] != kinds || !strings.HasPrefix(got["applyset.kubernetes.io/tooling"], "lockstep/") {
		t.Errorf("got %v, want kinds %q and our name", got, kinds)
	}
	if got := strings.Fields(r.mustKubectl("get", "configmaps", "--selector=applyset.kubernetes.io/part-of="+id, "--output=name")); !slices.Equal(got, []string{"configmap/a", "configmap/b"}) {
		t.Errorf("got members %q", got)
	}
}

// A set that kubectl made itself, in the same namespace, is none of ours, and ours
// is none of kubectl's.
func TestApplySetsSideBySide(t *testing.T) {
	r := newKubectlRig(t)
	r.mustKubectl(r.applySet("kubectls", "one")...)
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
	r.mustComplete()
	r.mustKubectl(r.applySet("kubectls", "two")...)
	r.use("1.0.1", configMap("a", "x: one"))
	r.mustComplete()
	got := strings.Fields(r.mustKubectl("get", "configmaps", "--output=name"))
	slices.Sort(got)
	if want := []string{"configmap/a", "configmap/kubectls", "configmap/set", "configmap/two"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// asTooling makes the parent say that another tool manages it.
func (r *rig) asTooling(name string) {
	r.t.Helper()
	r.patch(configMaps, r.ns, "set", `{"metadata":{"annotations":{"applyset.kubernetes.io/tooling":"`+name+`"}}}`)
}
