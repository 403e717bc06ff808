// Package kubeadm runs nodes of a real kubeadm with a real kubelet, containerd and runc on
// one machine, to test docs/kubeadm.md (make kubelet-test). A node runs in namespaces of its
// own for network, mounts, host name and processes: when its first process ends, all that
// runs on it ends. It needs Linux, root, and Debian's containerd, runc,
// containernetworking-plugins, conntrack, socat, ethtool and buildah.
package kubeadm

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/netns"
)

//go:embed init.sh
var initScript []byte

//go:embed systemctl.sh
var systemctlScript []byte

// Limits on the slow parts.
const (
	starts   = 30 * time.Second
	settles  = 3 * time.Minute  // until a pod or a gate is as it should be
	commands = 6 * time.Minute  // of kubeadm
	turnsEnd = 20 * time.Minute // of three nodes, each by kubeadm
)

// repository is the name under which the images are known; no registry serves it.
const repository = "lockstep.test"

// Node is a machine for one control plane node.
type Node struct {
	t       testing.TB
	Name    string
	machine *netns.Machine
	assets  string
	dir     string // its files, by their path on the machine of the test
	cgroup  string
	first   *exec.Cmd // unshare
	pid     int       // of the first process on the node
}

// Config configures a node.
type Config struct {
	Machine *netns.Machine
	Assets  string // the directory of the programs
	Pause   string // the tag of the image that containerd uses for the namespaces of pods
}

// NewNode starts a node on a machine of a network. It ends with the test.
func NewNode(t testing.TB, cfg Config) *Node {
	t.Helper()
	if err := removeLeftovers(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", nodePrefix, os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{t: t, Name: cfg.Machine.Name, machine: cfg.Machine, assets: cfg.Assets, dir: dir, cgroup: filepath.Base(dir)}
	t.Cleanup(func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	})
	n.must(n.prepare(cfg.Pause))
	n.must(n.begin())
	n.must(n.startContainerd())
	return n
}

// nodePrefix begins the names of the directory and of the cgroups of a node. The process of
// the test follows.
const nodePrefix = "lockstep-node-"

// removeLeftovers removes the files of nodes whose test was killed: all that ran on them ended
// with it.
func removeLeftovers() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), nodePrefix+"*-*"))
	if err != nil {
		return err
	}
	var failed error
	for _, dir := range dirs {
		name := filepath.Base(dir)
		pid, _, _ := strings.Cut(strings.TrimPrefix(name, nodePrefix), "-")
		if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
			failed = errors.Join(failed, removeCgroup(name), os.RemoveAll(dir))
		}
	}
	return failed
}

func (n *Node) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatalf("%s: %v", n.Name, err)
	}
}

// prepare writes the files that the node starts with.
func (n *Node) prepare(pause string) error {
	for name, content := range map[string]string{
		"bin/systemctl":   string(systemctlScript),
		"init.sh":         string(initScript),
		"containerd.toml": fmt.Sprintf(containerdConfig, repository+"/pause:"+pause),
		"10-ptp.conflist": networkConfig,
	} {
		file := filepath.Join(n.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			return err
		}
	}
	for _, hierarchy := range cgroups() {
		group := filepath.Join(hierarchy, n.cgroup)
		if err := os.Mkdir(group, 0o755); err != nil {
			return err
		}
		if filepath.Base(hierarchy) != "cpuset" {
			continue
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			content, err := os.ReadFile(filepath.Join(hierarchy, file))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(group, file), content, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// cgroups are the hierarchies of this machine.
func cgroups() []string {
	all, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	var out []string
	for _, file := range all {
		out = append(out, filepath.Dir(file))
	}
	return out
}

// begin starts the first process of the node.
func (n *Node) begin() error {
	line := append(n.machine.Wrapper(), "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
		"--propagation", "private", "sh", filepath.Join(n.dir, "init.sh"), n.dir, n.Name, n.machine.Address.String())
	n.first = exec.Command(line[0], line[1:]...)
	log, err := os.Create(filepath.Join(n.dir, "init.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	n.first.Stdout, n.first.Stderr = log, log
	if err := cluster.StartCommand(n.first); err != nil {
		return err
	}
	return n.await(starts, "the node to start", func() error {
		if _, err := os.Stat(filepath.Join(n.dir, "up")); err != nil {
			text, _ := os.ReadFile(filepath.Join(n.dir, "init.log")) // the other error counts
			return fmt.Errorf("%w: %s", err, text)
		}
		// It became unshare, whose only child is the first process of the node.
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", n.first.Process.Pid))
		if err != nil {
			return err
		}
		_, err = fmt.Sscan(string(children), &n.pid)
		return err
	})
}

// await polls until done returns nil.
func (n *Node) await(limit time.Duration, what string, done func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := cluster.Poll(ctx, func(context.Context) error { return done() }); err != nil {
		return fmt.Errorf("await %s: %w", what, err)
	}
	return nil
}

// Await waits until done returns nil.
func (n *Node) Await(what string, done func() error) {
	n.t.Helper()
	n.must(n.await(settles, what, done))
}

// command is a command on the node.
func (n *Node) command(ctx context.Context, line ...string) *exec.Cmd {
	path := filepath.Join(n.dir, "bin") + ":" + n.assets + ":/usr/sbin:/usr/bin:/sbin:/bin"
	args := append([]string{
		fmt.Sprintf("--target=%d", n.pid), "--mount", "--uts", "--net", "--pid", "--", "env", "-i", "PATH=" + path, "HOME=/root", "KUBECONFIG=/etc/kubernetes/super-admin.conf",
	}, line...)
	return exec.CommandContext(ctx, "nsenter", args...)
}

// Try runs a command on the node, and returns its output.
func (n *Node) Try(line ...string) (string, error) { return n.tryFor(commands, line...) }

func (n *Node) tryFor(limit time.Duration, line ...string) (string, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()
	cmd := n.command(ctx, line...)
	// Processes that it leaves in the background must not hold up the end.
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return string(out), fmt.Errorf("%s: %w: %s", strings.Join(line, " "), err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

// Run runs a command on the node, which must succeed.
func (n *Node) Run(line ...string) string {
	n.t.Helper()
	begin := time.Now()
	out, err := n.Try(line...)
	n.must(err)
	n.t.Logf("%s (%.1f s)", strings.Join(line, " "), time.Since(begin).Seconds())
	return out
}

// Shell types a line on the node.
func (n *Node) Shell(line string) string {
	n.t.Helper()
	return n.Run("bash", "-euc", line)
}

// File is the path of a file of the node, on the machine of the test.
func (n *Node) File(path string) string { return fmt.Sprintf("/proc/%d/root%s", n.pid, path) }

// Write writes a file of the node.
func (n *Node) Write(path, content string) {
	n.t.Helper()
	n.must(os.MkdirAll(filepath.Dir(n.File(path)), 0o755))
	n.must(os.WriteFile(n.File(path), []byte(content), 0o644))
}

func (n *Node) startContainerd() error {
	cmd := n.command(context.Background(), "containerd", "--config", filepath.Join(n.dir, "containerd.toml"))
	log, err := os.Create(filepath.Join(n.dir, "containerd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cluster.StartCommand(cmd); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // it ends with the node
	return n.await(starts, "containerd", func() error {
		_, err := n.Try("ctr", "version")
		return err
	})
}

// Import imports an image from an archive.
func (n *Node) Import(file string) {
	n.t.Helper()
	n.Run("ctr", "-n", "k8s.io", "images", "import", file)
}

// close ends all that runs on the node, and removes its files.
func (n *Node) close() error {
	if n.t.Failed() {
		n.saveLogs()
	}
	if n.first != nil && n.first.Process != nil {
		_ = n.first.Process.Kill() // it has not ended: nothing else ends it
		_ = n.first.Wait()         // its exit is a signal
	}
	return errors.Join(
		n.await(starts, "the cgroups to be empty", func() error { return removeCgroup(n.cgroup) }),
		n.await(starts, "the files to be free", func() error { return os.RemoveAll(n.dir) }),
	)
}

// saveLogs shows the end of each log.
func (n *Node) saveLogs() {
	for _, name := range []string{"init.log", "containerd.log", "var/log/kubelet.log"} {
		content, err := os.ReadFile(filepath.Join(n.dir, name))
		n.t.Logf("%s of %s, %v:\n%s", name, n.Name, err, content[max(0, len(content)-4000):])
	}
	logs, _ := filepath.Glob(filepath.Join(n.dir, "own/var/log/pods/*/*/*.log")) // the pattern is right
	for _, name := range logs {
		content, err := os.ReadFile(name)
		n.t.Logf("%s, %v:\n%s", name, err, content[max(0, len(content)-2000):])
	}
}

// removeCgroup removes the groups of a node, the innermost first. It fails while they contain
// processes.
func removeCgroup(name string) error {
	var failed error
	for _, hierarchy := range cgroups() {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(hierarchy, name), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // a directory that disappears meanwhile is removed
		})
		for _, dir := range slices.Backward(dirs) {
			if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				failed = err
			}
		}
	}
	return failed
}

const containerdConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%s"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
`

const networkConfig = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.244.0.0/24", "routes": [{"dst": "0.0.0.0/0"}]}}
]}
`
