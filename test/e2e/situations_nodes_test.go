package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// insteadOf is a wrapper that starts another program in place of a child process.
func insteadOf(path string) []string { return []string{"/bin/sh", "-c", `exec "` + path + `" "$@"`} }

// versionsDiffer runs an old kube-apiserver beside a new sidecar, and one node with other services
// than the rest.
func versionsDiffer(b *broken) {
	newer, err := b.c.StartAPIServer(cluster.APIServerConfig{
		Name: "two", Wrapper: insteadOf(filepath.Join(cluster.Assets(b.T, "kube-apiserver-1.1.0"), "kube-apiserver-1.1.0")),
	})
	b.must(err)
	dir := b.bundle("bundle", one)
	for node, kubeconfig := range map[string]string{"cp-1": newer.Kubeconfig(), "cp-2": newer.Kubeconfig(), "cp-3": b.api.Kubeconfig()} {
		services := filepath.Join(b.dir, node+"-services")
		b.must(os.Mkdir(services, 0o700))
		seconds := map[string]string{"cp-2": "8000000"}[node]
		if seconds == "" {
			seconds = "9000000"
		}
		b.write(filepath.Join(services, "10-proxy.yaml"), fmt.Sprintf(`apiVersion: lockstep.dev/v1
kind: Service
metadata: {name: proxy}
role: kubernetes_controller
process: {command: [/bin/sleep, %q], env: [{name: NODE, value: $(NODE_ID)}]}
`, seconds))
		b.start(node, dir, kubeconfigOf(kubeconfig), func(c *cluster.SidecarConfig) {
			c.Args = append(c.Args, "--services="+services, "--data-dir="+filepath.Join(b.dir, node+"-data"))
		})
	}
	b.ready("cp-1", "cp-2", "cp-3")
	for _, node := range []string{"cp-1", "cp-2", "cp-3"} {
		b.says(node, "APISERVER|SERVICES", "cp-3|v1.36.3 ", "cp-1|v1.36.3+1.1.0",
			"cp-3|nodes of release 1.0.0 have kube-apiservers of different versions: v1.36.3 on cp-3; v1.36.3+1.1.0 on cp-1, cp-2; a gate compares releases alone",
			"cp-2|nodes of release 1.0.0 have different services: sha256:|on cp-2|give all these nodes the same files in --services",
			"UPGRADE|do not start the next upgrade: cp-3: nodes of one release have different kube-apiservers (see WARNINGS)",
			"cp-2: nodes of one release have different services (see WARNINGS)")
	}
}

// clockAhead runs a node whose clock is an hour ahead, so that a cordon of it is over when it is
// read.
func clockAhead(b *broken) {
	if runtime.GOARCH != "amd64" {
		b.Skip("the clock of a process can be shifted on amd64 alone")
	}
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.start("cp-3", dir)
	b.ready("cp-1", "cp-3")
	b.start("cp-2", dir, func(c *cluster.SidecarConfig) {
		c.Wrapper, c.Env = insteadOf(cluster.BuildSteps(b.T)), append(c.Env, "TEST_CLOCK_SHIFT=1h")
	})
	b.ready("cp-2")
	const wrong = "cp-2|its clock is about 1h0m ahead of |compare the clocks, and correct the wrong one"
	for _, node := range []string{"cp-1", "cp-3"} {
		b.says(node, wrong)
	}
	sidecar := filepath.Join(cluster.Assets(b.T, "sidecar"), "sidecar")
	out, err := exec.CommandContext(b.Context(), sidecar, "cordon", "cp-2", "--for", "30m", "--etcd-servers="+b.c.Endpoints()[0]).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "a cordon had no effect: it was written at ") || !strings.Contains(string(out), " by its own clock") {
		b.Errorf("the cordon was over when it was read, and the command says: %v\n%s", err, out)
	}
	for _, node := range []string{"cp-1", "cp-2", "cp-3"} {
		b.says(node, wrong, "cp-2|a cordon had no effect: it was written at |and was over when this node read it at ")
	}
}
