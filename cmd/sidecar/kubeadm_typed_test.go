package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
)

// TestKubeadm_typed gives the blocks that sidecar kubeadm prints to a shell, as a person does who
// pastes them whole. Programs in the place of the real ones print their arguments.
// The commands for other nodes contain no flag of this node.
func TestKubeadm_typed(t *testing.T) {
	n := newKubeadmNode(t)
	dir := writeRelease(t, "1.0.0", "")
	out := n.ok("--image=lockstep:1.0.0", "--bundle", dir, "--apiserver-url=https://10.0.0.1:6443", "--", "--expire-dead-nodes=10m")
	programs := t.TempDir()
	for _, name := range []string{"sidecar", "kubeadm", "kubectl"} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\necho "+name+" \"$@\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dirs := "--dir=" + n.dir + " --kubernetes-dir=" + n.kubernetes
	own := "sidecar kubeadm " + dirs + " --node-id=cp-1 --apiserver-url=https://10.0.0.1:6443"
	patches := "--patches " + n.dir + "/patches"
	for title, want := range map[string][]string{
		"type next, on the first node:": {
			"kubeadm init " + patches, own,
			"kubectl --kubeconfig " + n.kubernetes + "/admin.conf --server https://10.0.0.1:6443 apply -k " + n.dir + "/cluster",
			own + " --check", "sidecar wait-ready --timeout 5m",
		},
		"on every other node:": {
			"sidecar kubeadm " + dirs + " --image=lockstep:1.0.0 --bundle=" + dir + " -- --expire-dead-nodes=10m",
			"kubeadm join --control-plane " + patches, "sidecar kubeadm " + dirs, "sidecar kubeadm " + dirs + " --check", "sidecar wait-ready --timeout 5m",
		},
	} {
		_, block, found := strings.Cut(out, "\n"+title+"\n")
		block, _, _ = strings.Cut(block, "\n\n")
		cmd := exec.CommandContext(t.Context(), "bash", "-eu")
		cmd.Stdin, cmd.Env = strings.NewReader(block), append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
		typed, err := cmd.CombinedOutput()
		if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(string(typed)), "\n")); !found || err != nil || diff != "" {
			t.Errorf("%s typed: %v, (-want +got)\n%s", title, err, diff)
		}
	}
}

// A first call with the command for other nodes writes the same patch there, whatever calls set the flags on this one.
func TestKubeadm_joinTyped(t *testing.T) {
	first := []string{"--image=lockstep:1", "--bundle=builtin"}
	for _, calls := range [][][]string{
		{append(first, "--", "--listen=0.0.0.0:8086", "--insecure-listen"), {"--", "--kubernetes-service"}, {"--image=lockstep:2"}},
		{append(first, "--", "--listen=127.0.0.1:8086"), {"--image=lockstep:2"}},
		{append(first, "--", "--expire-dead-nodes=2m"), {"--", "--kubernetes-service"}},
		{append(first, "--", "--listen=127.0.0.1:9000"), {"--https"}, {"--", "--listen=:9001"}},
		{append(first, "--", `--data-dir=/var/lib/a b`), {"--image=lockstep:2"}},
	} {
		n, other := newKubeadmNode(t), newKubeadmNode(t)
		out := ""
		for _, args := range calls {
			out = n.ok(append([]string{"--apiserver-url=https://10.0.0.1:6443"}, args...)...)
		}
		if blocks, sourced := strings.Count(out, "  sidecar wait-ready"), strings.Count(out, "\n  . "+n.dir+"/env\n"); blocks != 2 || sourced == 1 {
			t.Errorf("%v: wait-ready has its variables in %d of %d blocks:\n%s", calls, sourced, blocks, out)
		}
		_, line, found := strings.Cut(out, "\non every other node:\n  sidecar ")
		line, _, _ = strings.Cut(line, "\n")
		words, err := exec.CommandContext(t.Context(), "bash", "-c", `printf '%s\n' `+line).Output()
		typed := strings.Split(strings.TrimSpace(string(words)), "\n")
		if !found || err != nil || len(typed) < 3 {
			t.Fatalf("%v: %v: no command in\n%s", calls, err, out)
		}
		other.ok(append([]string{"--apiserver-url=https://10.0.0.2:6443"}, typed[3:]...)...) // without kubeadm and the directories
		lines := func(n *kubeadmNode) []string {
			text := strings.ReplaceAll(n.read(n.podPatch()), n.dir, "DIR")
			return slices.Sorted(strings.Lines(text)) // the order of flags may differ
		}
		if diff := cmp.Diff(lines(n), lines(other)); diff != "" {
			t.Errorf("%v: the other node, with %s, differs: (-this +other)\n%s", calls, line, diff)
		}
	}
}

// TestKubeadm_checkTyped types the commands with which a check of a node without its patches begins: they
// write the same patches again. On a node that had none, they name what people have to fill in.
func TestKubeadm_checkTyped(t *testing.T) {
	n := newKubeadmNode(t)
	server := n.api()
	n.makeCA()
	patches := filepath.Join(n.dir, kubeadm.PatchesDir)
	remedy := func() []string {
		_, out, _ := n.call("--check")
		_, line, found := strings.Cut(out, "  type: ")
		line, _, _ = strings.Cut(line, "\n")
		if !found {
			t.Fatalf("no command in\n%s", out)
		}
		return strings.Fields(line)
	}
	const begin = "sidecar kubeadm --dir="
	if got := strings.Join(remedy(), " "); !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, " --image IMAGE --bundle DIR") {
		t.Errorf("before the first call: got %s", got)
	}
	n.ok("--image=lockstep", "--bundle", writeRelease(t, "1.0.0", ""), "--apiserver-url", server.URL, "--", "--expire-dead-nodes=10m")
	n.runKubeadm(server.URL)
	n.trust(server)
	n.ok("--check")
	before := n.read(n.podPatch())
	for name, damage := range map[string]func(){
		"all patches are missing": func() { n.remove(patches) },
		"the patch is no pod":     func() { n.replaceIn(n.podPatch(), "name: lockstep", "name: x") },
		"the patch is unreadable": func() { n.replaceIn(n.podPatch(), "spec:", "spec: [") },
	} {
		damage()
		typed := remedy()
		if typed[0] == "rm" {
			n.remove(typed[1])
			typed = typed[3:]
		}
		n.ok(typed[2:]...)
		if now := n.read(n.podPatch()); now != before {
			t.Errorf("%s: typed %s, and the patch differs:\n%s", name, strings.Join(typed, " "), cmp.Diff(before, now))
		}
		n.trust(server)
		n.ok("--check")
	}
}

func (n *kubeadmNode) podPatch() string {
	return filepath.Join(n.dir, kubeadm.PatchesDir, kubeadm.PodPatch)
}

// TestKubeadm_rightsOfBundle: the files give what sidecar bundle rights prints, which is the way without kubeadm.
// test/e2e.TestPrintedRights uses the files.
func TestKubeadm_rightsOfBundle(t *testing.T) {
	n := newKubeadmNode(t)
	dir := writeRelease(t, "1.0.0", "---\n{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: kube-system}}\n")
	n.ok("--image=lockstep:1.0.0", "--bundle", dir, "--apiserver-url=https://10.0.0.1:6443")
	files := n.read(filepath.Join(n.dir, kubeadm.ClusterDir, "rbac.yaml")) + "---\n" + n.read(filepath.Join(n.dir, kubeadm.ClusterDir, kubeadm.BundleRights))
	code, output, stderr := call(t, program{}, "bundle", "rights", dir, "--all")
	files = strings.ReplaceAll(files, `"`+kubeadm.Group+`"`, kubeadm.Group) // quoted or not is the same
	if diff := cmp.Diff(strings.ReplaceAll(output, `"`+kubeadm.Group+`"`, kubeadm.Group), files); code != console.ExitOK || stderr != "" || diff != "" {
		t.Errorf("exit code %d %s, and the files differ: (-printed +files)\n%s", code, stderr, diff)
	}
}
