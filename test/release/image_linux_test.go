package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/logs"
)

// TestImage imports the image into a containerd of its own by the commands of README.md, and runs it.
func TestImage(t *testing.T) {
	image, version := one(t, "lockstep_*_image.tar"), versionOf(t)
	for _, program := range []string{"containerd", "ctr", "runc"} {
		if _, err := exec.LookPath(program); err != nil || os.Getuid() != 0 {
			t.Skipf("SKIPPED, NOT TESTED: containers need root, containerd and runc (Debian: apt-get install --no-install-recommends containerd runc): %v", err)
		}
	}
	page, err := os.ReadFile("../../README.md")
	must(t, err)
	const line, file = "ctr -n k8s.io images import ", "lockstep_0.1.0_image.tar"
	name := "lockstep.dev/lockstep:" + version
	for _, want := range []string{"\n# " + line + file + "\n", "`lockstep.dev/lockstep:v0.1.0`"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("README.md does not have %q", want)
		}
	}
	startContainerd(t)
	run(t, line+image)
	if out := run(t, "ctr -n k8s.io images ls"); !strings.Contains(out, name+" ") || !strings.Contains(out, "linux/amd64,linux/arm64") {
		t.Errorf("the images are\n%s", out)
	}
	if out := run(t, "ctr -n k8s.io run --rm "+name+" version /sidecar version"); !strings.Contains(out, version) {
		t.Errorf("got %s", out)
	}
	// Without another command it is sidecar run, as a user that is not root.
	out, err := exec.CommandContext(t.Context(), "ctr", "-n", "k8s.io", "run", "--rm", name, "run").CombinedOutput()
	if ended := (&exec.ExitError{}); !errors.As(err, &ended) || ended.ExitCode() != 2 || !strings.Contains(string(out), "--bundle: required") {
		t.Errorf("got %v: %s", err, out)
	}
	if out := run(t, "ctr -n k8s.io images rm "+name); out == "" {
		t.Error("the image was not removed")
	}
}

// versionOf is the version of the release, from the name of a file.
func versionOf(t *testing.T) string {
	t.Helper()
	name := strings.TrimPrefix(filepath.Base(one(t, "lockstep_*_image.tar")), "lockstep_")
	return "v" + strings.TrimSuffix(name, "_image.tar")
}

// startContainerd starts one with files of its own. It ends with the test, which removes its files.
func startContainerd(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "containerd") // short, for the path of a socket
	must(t, err)
	groups, err := filepath.Glob("/sys/fs/cgroup/*/k8s.io")
	must(t, err)
	address := filepath.Join(dir, "sock")
	must(t, os.WriteFile(filepath.Join(dir, "config.toml"), fmt.Appendf(nil, `version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = %q
[ttrpc]
  address = %q
`, filepath.Join(dir, "root"), filepath.Join(dir, "state"), address, address+".ttrpc"), 0o600))
	log := &logs.Buffer{}
	cmd := exec.Command("containerd", "--config", filepath.Join(dir, "config.toml"))
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = cmd.Wait()
		if len(groups) == 0 { // containerd made them, and leaves them
			made, _ := filepath.Glob("/sys/fs/cgroup/*/k8s.io")
			for _, group := range append(made, "/sys/fs/cgroup/k8s.io") {
				_ = os.Remove(group) // only if it is empty
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("containerd:\n%s", log)
		}
	})
	t.Setenv("CONTAINERD_ADDRESS", address)
	cluster.Await(t, "containerd", func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, "ctr", "version").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}
